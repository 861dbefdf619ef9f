"""Groups of commands: their order, their default sub-command and their usage errors."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from inspect import cleandoc
from typing import Any, ClassVar

from typer.core import TyperGroup

from fleetlake.cli.output import say
from fleetlake.text.plain import plain_lines


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
            usage.message = plain_lines(usage.message)
        raise
