"""Rich's consoles, without its interpretation of texts."""

import sys
from typing import Any

from rich.console import Console

from fleetlake.text.plain import plain_lines


class RichScreen(Console):
    """Prints text literally: no markup, no emoji names, control characters as visible codes."""

    def __init__(self, **options: Any) -> None:
        """Take the options of a console."""
        super().__init__(**options, markup=False, emoji=False, highlight=False)

    @property
    def rich(self) -> Console:
        """The console itself."""
        return self

    def print(self, *objects: Any, **options: Any) -> None:
        """Print texts, tables or styled text; texts need not be trusted."""
        shown = [plain_lines(o) if isinstance(o, str) else o for o in objects]
        super().print(*shown, **options)


class _Results(RichScreen):
    """Standard output; its reader may close the pipe early, which is not an error."""

    def on_broken_pipe(self) -> None:
        """End the command with exit code 0; Rich would end it with 1."""
        try:
            super().on_broken_pipe()
        except SystemExit:
            sys.exit(0)


def rich_console(*, stderr: bool, width: int | None = None) -> RichScreen:
    """Return the console of a standard stream; without a width, as wide as the terminal."""
    kind = RichScreen if stderr else _Results
    return kind(stderr=stderr, width=width)
