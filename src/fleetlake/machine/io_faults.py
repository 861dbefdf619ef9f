"""Why this machine refused to read, write or start something: one judge for every such error.

A full disk looks like damage: SQLite then says "disk I/O error", or that it cannot open a file that
is whole. So before a file counts as damaged, its file system is asked for free space, quota, free
inodes and rights, by writing a little to an unnamed file.
"""

import errno
import os
import re
import shutil
from errno import EACCES, ENOMEM, ENOSPC, EPERM
from pathlib import Path
from tempfile import TemporaryFile

from fleetlake.errors import FleetlakeError, LakeError, OutputLost, SettingsError
from fleetlake.text.tables_beside import rows_beside
from fleetlake.text.wording import size_in_words

_ROWS = {row["errors"]: row for row in rows_beside(__file__, "io_faults.csv")}
"""The faults by the system's errors: what is said of them, and `signs` of them in messages of
DuckDB, SQLite, Arrow and Python."""

_FAULTS = {getattr(errno, name): row for row in _ROWS.values() for name in row["errors"].split()}
_NO_INODES = _ROWS[""]
_SIGNS = {sign: code for code, row in _FAULTS.items() for sign in row["signs"].split("|") if sign}

_OPENING = ("disk i/o error", "unable to open database file", "readonly database")
"""What SQLite says of a file that it cannot open or lock, whatever prevents that."""

_UNCLEAR = (*_OPENING, "input/output error", "io error", "malformed", "not a database")
"""Messages that may stand for damage, or for one of the system's errors."""

_NO_ROOM = frozenset({ENOSPC, errno.EDQUOT})

_NAMED = re.compile(r"[\"'](/[^\"']+)[\"']")
_PROBE_BYTES = 256 * 1024

MORE_FILES = "Let the process open more files, for example by `ulimit -n 1024`"


def io_fault(error: BaseException | str, place: Path | None = None) -> FleetlakeError | None:
    """Return the error for a fault of this machine that its user can fix, otherwise None.

    `place` is the file or folder that was read or written, if the error does not name it. None
    also stands for damage: nothing else explains the error.
    """
    at = _named(error, place)
    code = _code(error)
    if code is None and at is not None and _says(error, _UNCLEAR):
        code = _probe(_existing_folder(at))
        if code not in _NO_ROOM and not _says(error, _OPENING):
            code = None  # a reader needs no right to write
    if code is None and isinstance(error, MemoryError):
        code = ENOMEM
    return _in_words(code, _shown(at, place)) if code in _FAULTS else None


def refuse_io_fault(error: BaseException) -> None:
    """Raise the error for a fault of this machine; then a file is not damaged, only unreadable now.

    The file itself was found unreadable, so no file system is asked.
    """
    if fault := io_fault(error):
        raise fault from None


def not_writable(name: str, folder: Path, error: OSError, *, setting: str) -> LakeError:
    """Return the error for a folder that is full, or that this user may not write to."""
    remedy = f"Make it writable for this user, or set {setting} to a writable folder."
    fault = io_fault(error, folder)
    if fault and error.errno not in {EACCES, EPERM}:
        remedy = fault.remedy
    reason = error.strerror or error
    return LakeError(f"Cannot write to the {name} folder {folder}: {reason}.", remedy=remedy)


def output_lost(what: str, file: Path, error: OSError, *, otherwise: str) -> OutputLost:
    """Return the error for a file of output that could not be written."""
    remedy = f"Let this user write to the folder, or choose another{otherwise}."
    fault = io_fault(error, file)
    if fault and error.errno not in {EACCES, EPERM}:
        remedy = fault.remedy
    return OutputLost(
        f"{what} could not be written to {file}: {error.strerror or error}.", remedy=remedy
    )


def _in_words(code: int | None, at: Path | None) -> FleetlakeError:
    row = _NO_INODES if code == ENOSPC and _lacks_inodes(at) else _FAULTS[code]
    words = {word: f" {word} {at}" if at else "" for word in ("of", "at", "to")}
    words |= {"path": f"{str(at)[:60]}… " if at else "", "more_files": MORE_FILES}
    words["free"] = _free_space(at) if code == ENOSPC else ""
    kind = SettingsError if row["kind"] == "settings" else LakeError
    return kind(row["what"].format(**words), remedy=row["remedy"].format(**words))


def _lacks_inodes(at: Path | None) -> bool:
    """Return whether a file system has room for another block, but not for another file."""
    if at is None:
        return False
    found = os.statvfs(_existing_folder(at))
    return bool(found.f_files and not found.f_favail and found.f_bavail)


def _code(error: BaseException | str) -> int | None:
    """Return the system's error that an exception carries or quotes."""
    if isinstance(error, OSError) and error.errno in _FAULTS:
        return error.errno
    text = str(error).lower()
    return next((code for sign, code in _SIGNS.items() if sign in text), None)


def _says(error: BaseException | str, signs: tuple[str, ...]) -> bool:
    text = str(error).lower()
    return any(sign in text for sign in signs)


def _probe(folder: Path) -> int | None:
    """Write a little to an unnamed file in a folder; return the system's error if that fails."""
    try:
        with TemporaryFile(dir=folder) as file:
            file.write(bytes(_PROBE_BYTES))
            file.flush()
    except OSError as error:
        return error.errno
    return None


def _named(error: BaseException | str, place: Path | None) -> Path | None:
    """Return the path that an error names, otherwise the place."""
    if isinstance(error, OSError) and isinstance(error.filename, str) and error.filename:
        return Path(error.filename)
    found = _NAMED.search(str(error))
    return Path(found[1]) if found else place


def _shown(at: Path | None, place: Path | None) -> Path | None:
    """Return the place to name: the caller's, unless the error is about a file elsewhere."""
    return place if at and place and at.is_relative_to(place) else at


def _existing_folder(path: Path) -> Path:
    """Return a path, or its nearest parent that is an existing folder."""
    return next(folder for folder in (path, *path.absolute().parents) if folder.is_dir())


def _free_space(at: Path | None) -> str:
    if at is None:
        return ""
    usage = shutil.disk_usage(_existing_folder(at))
    return f": {size_in_words(usage.free)} of {size_in_words(usage.total)} are free"
