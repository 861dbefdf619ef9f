"""Small files that are either the old or the new one, whatever stops the process."""

import os
from pathlib import Path


def write_atomically(file: Path, text: str, *, mode: int | None = None) -> None:
    """Replace a file, or create it, with the text as UTF-8. Raises: OSError.

    A process that is killed meanwhile leaves the old content, or no file if there was none. `mode`
    is who may read it, by default what the umask says.
    """
    new = file.with_name(f"{file.name}.new")
    with new.open("w", encoding="utf-8") as out:
        if mode is not None:
            os.fchmod(out.fileno(), mode)
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    new.replace(file)
