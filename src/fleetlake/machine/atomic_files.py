"""Small files that are either the old or the new one, whatever stops the process."""

import os
from pathlib import Path

_CREATE = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
"""A file that is there, or a symbolic link that somebody has planted, is an error."""


def write_atomically(file: Path, text: str, *, mode: int | None = None) -> None:
    """Replace a file, or create it, with the text as UTF-8. Raises: OSError.

    A process that is killed meanwhile leaves the old content, or no file if there was none. `mode`
    is who may read it, by default what the umask says; nobody else can open it at any moment.
    """
    new = file.with_name(f"{file.name}.new")
    new.unlink(missing_ok=True)  # of a killed process; who has opened it, has another file
    descriptor = os.open(new, _CREATE, 0o666 if mode is None else mode)
    with os.fdopen(descriptor, "w", encoding="utf-8") as out:
        if mode is not None:
            os.fchmod(out.fileno(), mode)  # whatever the umask is
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    new.replace(file)
