"""Small files that are either the old or the new one, whatever stops the process."""

import os
import re
import time
from pathlib import Path
from uuid import uuid4

_CREATE = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
"""A file that is there, or a planted symbolic link, is an error."""

_DAY_SECONDS = 86_400


def write_atomically(file: Path, text: str, *, mode: int | None = None) -> None:
    """Replace a file, or create it, with the text as UTF-8. Raises: OSError.

    A process that is killed meanwhile leaves the old content, or no file if there was none. Of two
    processes that replace the file at once, the last one does. `mode` is who may read it, by
    default what the umask says; no other user can open it at any moment.
    """
    for left in unfinished(file.parent, re.escape(file.name), seconds=_DAY_SECONDS):
        left.unlink(missing_ok=True)
    new = file.with_name(f"{file.name}.{uuid4().hex}.new")
    descriptor = os.open(new, _CREATE, 0o666 if mode is None else mode)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as out:
            if mode is not None:
                os.fchmod(out.fileno(), mode)  # whatever the umask is
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        new.replace(file)
    except BaseException as error:
        new.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename is None:  # as of a write to a full disk
            error.filename = str(file)
        raise
    flush_folder(file.parent)


def unfinished(folder: Path, names: str, *, seconds: float = 0) -> list[Path]:
    """Return what unfinished writes have left in a folder: those of killed processes, and current.

    `names` is a regular expression of the files that were to be replaced. What changed in the last
    `seconds` is left out.
    """
    name = re.compile(rf"({names})\.[0-9a-f]{{32}}\.new")
    oldest = time.time() - seconds
    with os.scandir(folder) as entries:
        return [
            Path(entry.path)
            for entry in entries
            if name.fullmatch(entry.name) and entry.stat(follow_symlinks=False).st_mtime <= oldest
        ]


def flush_folder(folder: Path) -> None:
    """Wait until the names in a folder are on its disk. Raises: OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
