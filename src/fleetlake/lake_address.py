"""Where a lake is: in a folder of this machine, or shared by several through PostgreSQL."""

import hashlib
from dataclasses import dataclass
from errno import EDQUOT, EFBIG, EMFILE, ENFILE, ENOSPC
from pathlib import Path
from typing import Any, Self

from platformdirs import user_cache_path
from pydantic import SecretStr

from fleetlake.errors import LakeError
from fleetlake.text.redaction import without_secrets

SHARED = "postgres:"

MORE_FILES = "Let the process open more files, for example by `ulimit -n 1024`"

_FIRST_PRINTABLE = 32

DEMO_MARK = "demo.json"
"""File in a lake that says it holds the demo's simulated fleet."""


@dataclass(frozen=True)
class SharedLake:
    """A lake whose catalog is a PostgreSQL database and whose files every machine reaches.

    `catalog` is libpq's address of the database, `files` a folder or an object store's URL.
    What a build keeps beside the lake is under a folder of each machine.
    """

    catalog: SecretStr
    files: str

    def __str__(self) -> str:
        """Return where it is without what is secret."""
        catalog = self.catalog.get_secret_value()
        return f"{SHARED}{without_secrets(catalog, self.catalog)}"

    def __truediv__(self, name: str) -> Path:
        """Return the path of something that this machine keeps beside the lake."""
        digest = hashlib.sha256(self.catalog.get_secret_value().encode()).hexdigest()[:16]
        return user_cache_path("fleetlake") / digest / name

    def resolve(self) -> Self:
        """Return itself, as an absolute path would."""
        return self

    def connect(self) -> Any:
        """Return a connection to the database, committing each statement by itself.

        Raises: LakeError, without what is secret, if it does not answer.
        """
        try:
            from adbc_driver_postgresql import dbapi  # noqa: PLC0415 - an extra, and slow to load
        except ModuleNotFoundError:
            raise LakeError(
                "The driver for a shared lake is not installed.",
                remedy="Install it: pip install 'fleetlake[postgres]'.",
            ) from None
        try:
            return dbapi.connect(self.catalog.get_secret_value(), autocommit=True)
        except dbapi.Error as error:
            said = without_secrets(" ".join(str(error).split()), self.catalog)
        raise LakeError(
            f"The catalog of the shared lake does not answer: {said}.",
            remedy="Check FLEETLAKE_LAKE, the password and the network.",
        )


LakePlace = Path | SharedLake


def lake_place(text: str, files: str | None) -> LakePlace:
    """Return the place that a setting names. Raises: ValueError without files to share."""
    if not text.strip():
        raise ValueError("is empty; name a folder, or unset it for data/lake")
    if not text.startswith(SHARED):
        return Path(text)
    if not files:
        raise ValueError("a shared lake needs FLEETLAKE_LAKE_FILES, where its files lie")
    shared = files if "://" in files else str(Path(files).absolute())
    return SharedLake(SecretStr(text.removeprefix(SHARED)), shared.rstrip("/"))


def not_writable(name: str, folder: Path, error: OSError, *, setting: str) -> LakeError:
    """Return the error of a folder that the system lets nobody write to, or that is full."""
    remedy = f"Make it writable for this user, or set {setting} to one that is."
    if error.errno in {ENOSPC, EDQUOT, EFBIG}:
        remedy = "Free some space and run again; what was there before is whole."
    if error.errno in {EMFILE, ENFILE}:
        remedy = f"{MORE_FILES}, and run again."
    reason = error.strerror or error
    return LakeError(f"The {name} folder {folder} cannot be written: {reason}.", remedy=remedy)


def refuse_unusable(name: str, folder: Path, *, setting: str) -> None:
    """Raise LakeError for a folder in whose path DuckDB or SQLite would read more than a name.

    DuckDB takes a question mark for the start of options, and a path that is no UTF-8 for none.
    """
    path = str(folder.absolute())
    told = "a question mark" if "?" in path else ""
    try:
        path.encode()
    except UnicodeEncodeError:
        told = "bytes that are no UTF-8"
    if any(ord(character) < _FIRST_PRINTABLE for character in path):
        told = "control characters"
    if told:
        raise LakeError(
            f"The {name} folder {path!r} cannot be used: its path holds {told}.",
            remedy=f"Rename it, or set {setting} to another folder.",
        )


def as_settings(place: LakePlace) -> dict[str, str]:
    """Return what a child process needs in its environment to find the same lake."""
    if isinstance(place, SharedLake):
        address = f"{SHARED}{place.catalog.get_secret_value()}"
        return {"FLEETLAKE_LAKE": address, "FLEETLAKE_LAKE_FILES": place.files}
    return {"FLEETLAKE_LAKE": str(place)}
