"""Standard output and standard error: their encoding, whether all was written, and log lines."""

import codecs
import logging
import os
import select
import sys
import traceback
from errno import EPIPE
from io import TextIOWrapper
from types import TracebackType
from typing import TextIO

from fleetlake.errors import OutputLost
from fleetlake.text.plain import plain_lines

_ERRORS = "fleetlake"
_IN_ASCII = {"…": "...", "\u2013": "-", "✓": "ok", "✗": "x", "→": "->", "·": "-"}
_STREAMS = ((0, os.O_RDONLY), (1, os.O_WRONLY), (2, os.O_WRONLY))


def prepare_streams() -> None:
    """Make every character readable and writable in any locale, and every message plain text.

    Raises: OutputLost if standard output is closed.
    """
    sys.argv = [os.fsencode(word).decode("utf-8", "surrogateescape") for word in sys.argv]
    was_open = [_keep_open(number, mode) for number, mode in _STREAMS]
    codecs.register_error(_ERRORS, _as_ascii)
    sys.stderr = sys.stderr or os.fdopen(2, "w", errors=_ERRORS)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors=_ERRORS)
    sys.excepthook = _show_traceback
    if not was_open[1] or sys.stdout is None:
        raise OutputLost(
            "Standard output is closed.", remedy="Redirect it to a file or to /dev/null."
        )


def machine_output() -> TextIO:
    """Return standard output for JSON and CSV: UTF-8, whatever the terminal's encoding is."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    return sys.stdout


def is_read_by_people() -> bool:
    """Return whether standard output is a terminal, which executes control characters."""
    return sys.stdout.isatty()


def say(message: str) -> None:
    """Write a message to standard error; ignore an error of standard error itself."""
    try:
        sys.stderr.write(f"{plain_lines(message)}\n")
        sys.stderr.flush()
    except OSError:
        return


def lost_output() -> OutputLost | None:
    """Flush standard output; return the error if that fails."""
    try:
        sys.stdout.flush()
    except OSError as error:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)  # Python flushes again when it exits
        os.close(nowhere)
        return _loss(error)
    return None


def unwritable_output() -> OutputLost | None:
    """Try to write a line break to standard output; return the error if that fails."""
    try:
        os.write(1, b"\n")
    except OSError as error:
        return _loss(error)
    return None


def _loss(error: OSError) -> OutputLost | None:
    """Return the error to report; None if a pipe's reader closed it, which loses nothing."""
    if error.errno == EPIPE:
        return None
    return OutputLost(
        f"Standard output could not be written: {error.strerror or error}.",
        remedy="Free some space or choose another file, and run the command again.",
    )


class OutputPipe:
    """Standard output as it was when the command started."""

    def __init__(self) -> None:
        """Duplicate standard output: libraries replace it when its reader closes the pipe."""
        self._file = os.dup(1)

    def is_closed_by_reader(self) -> bool:
        """Return whether standard output is a pipe whose reader has closed it."""
        pipe = select.poll()
        pipe.register(self._file, 0)
        return any(event & select.POLLERR for _, event in pipe.poll(0))


def _keep_open(number: int, mode: int) -> bool:
    """Return whether a standard stream is open; reserve the descriptor of a closed one.

    Otherwise the next opened file would get that descriptor, and messages would be written to it.
    """
    try:
        os.fstat(number)
    except OSError:
        os.open(os.devnull, mode)
        return False
    return True


def _as_ascii(error: UnicodeError) -> tuple[str, int]:
    """Return ASCII for characters that a terminal's encoding lacks."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end]
    shown = (_IN_ASCII.get(c, c.encode("ascii", "backslashreplace").decode()) for c in text)
    return "".join(shown), error.end


def _show_traceback(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Print an uncaught error as plain text: its message may contain anything."""
    say("".join(traceback.format_exception(kind, error, trace)).rstrip())


class PlainFormatter(logging.Formatter):
    """Formats log records, tracebacks included, without control characters."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as text without control characters."""
        return plain_lines(super().format(record))
