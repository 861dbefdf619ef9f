"""The address of a lake: a folder on this machine, or a catalog that machines share."""

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from platformdirs import user_cache_path
from pydantic import SecretStr

from fleetlake.errors import LakeError
from fleetlake.text.redaction import without_secrets
from fleetlake.text.wording import install_command

SHARED = "postgres:"

_FIRST_PRINTABLE = 32

_MISREAD = {"?": "a question mark", "\\": "a backslash"}

DEMO_MARK = "demo.json"
"""File that marks a lake as holding the demo's simulated fleet."""


@dataclass(frozen=True)
class SharedLake:
    """A lake that machines share: its catalog is a PostgreSQL database that all of them can reach.

    `catalog` is the libpq address of the database. `files` is the folder or object store URL of the
    lake's files. Each machine keeps local build files in its own cache folder.
    """

    catalog: SecretStr
    files: str

    def __str__(self) -> str:
        """Return the address without secrets."""
        catalog = self.catalog.get_secret_value()
        return f"{SHARED}{without_secrets(catalog, self.catalog)}"

    def __truediv__(self, name: str) -> Path:
        """Return the path of a file or folder that this machine keeps for the lake."""
        digest = hashlib.sha256(self.catalog.get_secret_value().encode()).hexdigest()[:16]
        return user_cache_path("fleetlake") / digest / name

    def resolve(self) -> Self:
        """Return the address itself: like an absolute path, it is already resolved."""
        return self

    def connect(self) -> Any:
        """Return a connection to the database that commits each statement by itself.

        Raises: LakeError, without secrets, if the database does not answer.
        """
        try:
            from adbc_driver_postgresql import dbapi  # noqa: PLC0415 - an extra, and slow to load
        except ModuleNotFoundError:
            raise LakeError(
                "The driver for a shared lake is not installed.", remedy=install_command("postgres")
            ) from None
        try:
            return dbapi.connect(self.catalog.get_secret_value(), autocommit=True)
        except dbapi.Error as error:
            refusal = self.no_answer(str(error))
        raise refusal

    def no_answer(self, message: str) -> LakeError:
        """Return the error for a database that does not answer, with a driver's message."""
        reason = without_secrets(" ".join(message.split()), self.catalog)
        return LakeError(
            f"The catalog of the shared lake does not answer: {reason}.",
            remedy="Check FLEETLAKE_LAKE, the password and the network.",
        )


LakeAddress = Path | SharedLake


def parse_lake_address(text: str, files: str | None) -> LakeAddress:
    """Return the address in a setting. Raises: ValueError if the files have no location."""
    if not text.strip():
        raise ValueError("is empty; name a folder, or unset it to use data/lake")
    if not text.startswith(SHARED):
        return Path(text)
    if not files:
        raise ValueError("a shared lake also needs FLEETLAKE_LAKE_FILES, the location of its files")
    shared = files if "://" in files else str(Path(files).absolute())
    return SharedLake(SecretStr(text.removeprefix(SHARED)), shared.rstrip("/"))


def refuse_unusable(name: str, folder: Path, *, setting: str, also: str | None = None) -> None:
    """Raise LakeError for a folder whose path DuckDB or SQLite would misread.

    DuckDB reads a question mark as the start of options and a backslash as a separator, and rejects
    paths that are not UTF-8. `also` is a pattern that another library misreads.
    """
    path = str(folder.absolute())
    problem = next((what for sign, what in _MISREAD.items() if sign in path), "")
    if also and (found := re.search(also, path)):
        problem = found[0]
    try:
        path.encode()
    except UnicodeEncodeError:
        problem = "bytes that are not UTF-8"
    if any(ord(character) < _FIRST_PRINTABLE for character in path):
        problem = "control characters"
    if problem:
        raise LakeError(
            f"The {name} folder {path!r} cannot be used: its path contains {problem}.",
            remedy=f"Rename it, or set {setting} to another folder.",
        )


def as_settings(lake: LakeAddress) -> dict[str, str]:
    """Return the environment variables that let a child process find the same lake."""
    if isinstance(lake, SharedLake):
        catalog = f"{SHARED}{lake.catalog.get_secret_value()}"
        return {"FLEETLAKE_LAKE": catalog, "FLEETLAKE_LAKE_FILES": lake.files}
    return {"FLEETLAKE_LAKE": str(lake)}
