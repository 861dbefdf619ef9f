"""Log lines as plain text: they may quote what a user or the service sent."""

import logging

from fleetlake.text.plain import plain_lines


class PlainFormatter(logging.Formatter):
    """Formats log records, tracebacks included, without control characters."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as text without control characters."""
        return plain_lines(super().format(record))
