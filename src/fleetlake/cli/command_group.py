"""Groups of commands: their order, imports, default sub-command, usage errors, and completion.

Completion of values comes on top of the commands and options that Typer completes.
"""

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from inspect import cleandoc
from typing import TYPE_CHECKING, Any, ClassVar

import typer
import typer.main
from typer.core import TyperCommand, TyperGroup

from fleetlake.cli.output import say
from fleetlake.text.plain import plain_lines

if TYPE_CHECKING:
    from fleetlake.endpoints.model import Endpoint


class PlainGroup(TyperGroup):
    """A group whose usage errors contain no control characters and suggest the nearest word."""

    order: ClassVar[tuple[str, ...]] = ()
    """Names of commands in the order of the help; those of sub-groups would come first."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands in the order in which help shows them."""
        names = super().list_commands(ctx)
        return sorted(names, key=self.order.index) if self.order else names

    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:
        """Return the context of a call, as Click does."""
        with _plain_usage_errors():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: Any) -> Any:
        """Run the command, as Click does."""
        with _plain_usage_errors():
            return super().invoke(ctx)


@dataclass(frozen=True)
class CommandOnDemand:
    """A command that is imported when it is called.

    `target` is its module and function, or its group, or the name of a group of `commands`.
    `summary` is the first paragraph of its help.
    """

    target: str
    summary: str
    commands: tuple["CommandOnDemand", ...] = ()

    @property
    def name(self) -> str:
        """What a user types."""
        return self.target.rpartition(":")[2].replace("_", "-")

    def built(self) -> Any:
        """Import the command, and return it as Click's object."""
        if self.commands:
            return GroupOnDemand(
                name=self.name,
                help=self.summary,
                no_args_is_help=True,
                headings={"Commands": self.commands},
            )
        module, _, function = self.target.partition(":")
        found = getattr(import_module(module), function)
        if isinstance(found, typer.Typer):
            return typer.main.get_group(found)
        alone = typer.Typer(add_completion=False)
        alone.command(self.name, help=joined_paragraphs(found.__doc__ or ""))(found)
        return typer.main.get_command(alone)


class _Commands(MutableMapping[str, Any]):
    """The commands of a group by name; looking one up imports it."""

    def __init__(self, listed: Mapping[str, CommandOnDemand]) -> None:
        self._listed = dict(listed)
        self._built: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._built:
            self._built[name] = self._listed[name].built()
        return self._built[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._built[name] = command

    def __delitem__(self, name: str) -> None:
        del self._listed[name]
        self._built.pop(name, None)

    def __iter__(self) -> Iterator[str]:
        return iter(self._listed)

    def __len__(self) -> int:
        return len(self._listed)


class _Listed(TyperCommand):
    """What help and completion show of a command."""

    def get_short_help_str(self, limit: int = 0) -> str:  # noqa: ARG002 - Click's signature
        """Return the whole summary, which help wraps; Click would cut it to one line."""
        return self.help or ""


class GroupOnDemand(PlainGroup):
    """A group whose help and completion need no import of its commands."""

    headings: Mapping[str, Sequence[CommandOnDemand]] = {}
    """The commands by their heading in the help."""

    def __init__(
        self, *, headings: Mapping[str, Sequence[CommandOnDemand]] | None = None, **options: Any
    ) -> None:
        """Take the options of a group, and its commands unless its class has them."""
        super().__init__(**options)
        self.headings = headings or self.headings
        self.listed = {one.name: one for group in self.headings.values() for one in group}
        self.commands = _Commands(self.listed)

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - Click's signature
        """Return the names of all commands in the order in which help shows them."""
        return list(self.listed)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - likewise
        """Write the commands under their headings, with one width of the names for all."""
        widest = max(map(len, self.listed))
        for heading, commands in self.headings.items():
            with formatter.section(heading):
                formatter.write_dl([(one.name.ljust(widest), one.summary) for one in commands])

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002 - likewise
        """Return what help and completion show of a command, or None if there is none."""
        return next(
            (
                _Listed(name=one.name, help=one.summary, rich_help_panel=heading)
                for heading, commands in self.headings.items()
                for one in commands
                if one.name == cmd_name
            ),
            None,
        )

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the name of the called command, the command and its arguments."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, self.commands[name] if name and name in self.listed else command, rest


class ListGroup(PlainGroup):
    """A group whose `list` runs if no sub-command is named."""

    old_words: ClassVar[Mapping[str, str]] = {}
    """Deprecated options and their replacements; "" drops the option."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse a command line; deprecated options work too, with a warning."""
        known = args if ctx.resilient_parsing else self._with_command(ctx, args)
        return super().parse_args(ctx, known)

    def _with_command(self, ctx: Any, args: list[str]) -> list[str]:
        """Return the words with the sub-command first; it is `list` if none is given."""
        first = args[0] if args else "list"
        if first == "--help" or not (first.startswith("-") or first in self.commands):
            return args  # help, or a misspelt sub-command
        rest = [new for word in args for new in self._replaced(word)]
        command = next((word for word in rest if word in self.commands), "list")
        if command in rest:
            rest.remove(command)
        words = [command, *rest]
        if words not in (args, ["list", *args]):
            say_instead(" ".join([ctx.command_path, *args]), " ".join([ctx.command_path, *words]))
        return words

    def _replaced(self, word: str) -> list[str]:
        option, _, value = word.partition("=")
        if option not in self.old_words:
            return [word]
        return [new for new in (self.old_words[option], value) if new]


def say_instead(old: str, new: str) -> None:
    """Warn about a deprecated spelling, and name the new one (docs/how-to/releases.md)."""
    say(f"Warning: `{old}` is deprecated and a later release removes it. Type `{new}` instead.")


def joined_paragraphs(docstring: str) -> str:
    r"""Return a docstring with one line per paragraph, so that help wraps at any width.

    >>> joined_paragraphs("One.\n\n    Two\n    lines.")
    'One.\n\nTwo lines.'
    """
    return "\n\n".join(" ".join(part.split()) for part in cleandoc(docstring).split("\n\n"))


@contextmanager
def _plain_usage_errors() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        usage: Any = error  # Typer has its own copy of Click's error classes
        if possibilities := getattr(usage, "possibilities", None):
            nearest = ", ".join(f"'{option}'" for option in possibilities)
            usage.message, usage.possibilities = f"{usage.message}. Did you mean {nearest}?", None
        if hasattr(usage, "format_message"):
            # Typer checks values with pydantic, whose prefix says nothing to the user.
            usage.message = plain_lines(usage.message.removeprefix("Value error, "))
        raise


def endpoint_names(incomplete: str) -> list[str]:
    """Return the endpoints whose names start with what is typed.

    >>> endpoint_names("alert_r")
    ['alert_rules']
    """
    from fleetlake.endpoints import requested_endpoints

    return [e.name for e in requested_endpoints() if e.name.startswith(incomplete)]


def type_names(incomplete: str) -> list[str]:
    """Return the alert types, and the groups of them, that start with what is typed.

    >>> type_names("fail")
    ['failover', 'failover_event']
    """
    from fleetlake.alerting.chosen_types import TYPE_GROUPS

    known = [*TYPE_GROUPS, *(name for names in TYPE_GROUPS.values() for name in names)]
    return [name for name in known if name.startswith(incomplete)]


def destination_ids(incomplete: str) -> list[str]:
    """Return the ids of the push destinations in the lake that start with what is typed."""
    from fleetlake.endpoints import PUSH_DESTINATIONS

    return _ids(PUSH_DESTINATIONS, incomplete)


def rule_ids(incomplete: str) -> list[str]:
    """Return the ids of the alert rules in the lake that start with what is typed."""
    from fleetlake.endpoints import ALERT_RULES

    return _ids(ALERT_RULES, incomplete)


def _ids(endpoint: "Endpoint", incomplete: str) -> list[str]:
    """Return ids as the last load found them: asking the service would take too long, and a call.

    Without a lake there is nothing to offer, and no place for an error.
    """
    from fleetlake.errors import FleetlakeError
    from fleetlake.lake import open_lake
    from fleetlake.settings import load_settings

    [key] = endpoint.key
    try:
        with open_lake(load_settings().lake, read_only=True, threads=1) as lake:
            found = lake.rows(
                f"select {key} from raw.{endpoint.name} "
                f"where valid_to is null and starts_with({key}, ?) order by 1",
                [incomplete],
            )
    except FleetlakeError:
        return []
    return [one for (one,) in found]
