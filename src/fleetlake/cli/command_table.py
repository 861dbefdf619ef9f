"""The commands by the heading and in the order of the help; none of them is imported here."""

from collections.abc import Mapping, Sequence

from fleetlake.cli.command_group import CommandOnDemand
from fleetlake.text.tables_beside import rows_beside

_ROWS = rows_beside(__file__, "commands.csv")
"""The summary of a command is the first paragraph of its own help."""

_GROUPS = {row["group"] for row in _ROWS} - {""}


def _command(row: dict[str, str]) -> CommandOnDemand:
    """Return a command; its target is a group, a module in `cli`, or a module and a function."""
    place = row["target"]
    if place in _GROUPS:
        inner = tuple(_command(one) for one in _ROWS if one["group"] == place)
        return CommandOnDemand(place, row["summary"], inner)
    is_whole = ":" in place
    target = place if is_whole else f"fleetlake.cli.{place}:{place.rpartition('.')[2]}"
    return CommandOnDemand(target, row["summary"])


HEADINGS = {
    heading: tuple(_command(row) for row in _ROWS if row["heading"] == heading)
    for heading in dict.fromkeys(row["heading"] for row in _ROWS if row["heading"])
}

MOVED: Mapping[str, tuple[str, str]] = {
    **{name: ("records", name) for name in ("gaps", "quarantine", "columns", "verify", "events")},
    **{name: ("prefect", name) for name in ("worker", "up")},
    **{f"prefect-{name}": ("prefect", name) for name in ("server", "setup")},
}
"""Deprecated commands and their replacements (docs/how-to/releases.md says for how long)."""

RENAMED: Mapping[tuple[str, str], str] = {("receive", "--host"): "--listen"}
"""Likewise: commands with their deprecated options, and the replacements of these."""


def with_new_words(args: Sequence[str]) -> list[str]:
    """Return a command line without deprecated words.

    >>> with_new_words(["--debug", "worker", "--name", "a"])
    ['--debug', 'prefect', 'worker', '--name', 'a']
    >>> with_new_words(["receive", "--host=::"])
    ['receive', '--listen=::']
    """
    at = next((place for place, word in enumerate(args) if not word.startswith("-")), None)
    if at is None:
        return [*args]
    command, options = args[at], (word.split("=", 1) for word in args[at + 1 :])
    rest = ["=".join([RENAMED.get((command, name), name), *value]) for name, *value in options]
    return [*args[:at], *MOVED.get(command, (command,)), *rest]
