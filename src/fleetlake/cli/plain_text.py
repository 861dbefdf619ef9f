"""Log lines and usage errors as plain text: both may quote what a user or the service sent."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from typer.core import TyperGroup

from fleetlake.text.plain import plain_lines


class PlainFormatter(logging.Formatter):
    """Formats log records without control characters, tracebacks included."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as text that a terminal does not obey."""
        return plain_lines(super().format(record))


class PlainGroup(TyperGroup):
    """The commands; what they say of wrong arguments has no control characters."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:
        """Return the context of a call, as Click does."""
        with _plain_errors():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: Any) -> Any:
        """Run the command, as Click does."""
        with _plain_errors():
            return super().invoke(ctx)


@contextmanager
def _plain_errors() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        refused: Any = error
        if hasattr(refused, "format_message"):  # Typer has its own copy of Click's errors
            refused.message = plain_lines(refused.message)
        raise
