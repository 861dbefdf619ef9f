"""Standard output and standard error: what they can show, and whether all of it was written."""

import codecs
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
    """Let every character be read and written in any locale, and every message be plain text.

    Raises: OutputLost if standard output is closed, before anything is done.
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
            "Standard output is closed.", remedy="Redirect it to a file, or to /dev/null."
        )


def machine_output() -> TextIO:
    """Return standard output for JSON and CSV, which are UTF-8 whatever the terminal is."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    return sys.stdout


def is_read_by_people() -> bool:
    """Return whether standard output is a terminal, which obeys what is written to it."""
    return sys.stdout.isatty()


def say(message: str) -> None:
    """Write a message to standard error, if anybody listens there."""
    try:
        sys.stderr.write(f"{plain_lines(message)}\n")
        sys.stderr.flush()
    except OSError:
        return


def lost_output() -> OutputLost | None:
    """Write out what is left of standard output; return why that is not possible."""
    try:
        sys.stdout.flush()
    except OSError as error:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)  # Python tries once more at its end
        os.close(nowhere)
        return _loss(error)
    return None


def unwritable_output() -> OutputLost | None:
    """Return why nothing more can be written to standard output, tried with a line break."""
    try:
        os.write(1, b"\n")
    except OSError as error:
        return _loss(error)
    return None


def _loss(error: OSError) -> OutputLost | None:
    """Return what was lost: nothing where a pipe's reader left with what it wanted."""
    if error.errno == EPIPE:
        return None
    return OutputLost(
        f"Standard output could not be written: {error.strerror or error}.",
        remedy="Free some space or choose another file, and run the command again.",
    )


class Reader:
    """Who reads standard output, as it was when the command began."""

    def __init__(self) -> None:
        """Keep a way to standard output, which libraries replace when its reader leaves."""
        self._file = os.dup(1)

    def has_gone(self) -> bool:
        """Return whether standard output is a pipe that is read no more."""
        pipe = select.poll()
        pipe.register(self._file, 0)
        return any(event & select.POLLERR for _, event in pipe.poll(0))


def _keep_open(number: int, mode: int) -> bool:
    """Return whether a standard stream is open; of one that is not, keep the number.

    Otherwise the next file would get it, and messages would be written into that file.
    """
    try:
        os.fstat(number)
    except OSError:
        os.open(os.devnull, mode)
        return False
    return True


def _as_ascii(error: UnicodeError) -> tuple[str, int]:
    """Return what stands for a character that a terminal's encoding lacks."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end]
    shown = (_IN_ASCII.get(c, c.encode("ascii", "backslashreplace").decode()) for c in text)
    return "".join(shown), error.end


def _show_traceback(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Print an error nobody caught; its message may hold anything."""
    say("".join(traceback.format_exception(kind, error, trace)).rstrip())
