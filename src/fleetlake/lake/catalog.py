"""Opening a lake: DuckDB with the DuckLake extension, tables as the endpoint table says.

The extensions are loaded from the wheels they were installed with, never from the internet.
The catalog is one SQLite file in write-ahead mode, so readers never wait for a writer.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from errno import EACCES
from importlib.resources import files
from pathlib import Path
from typing import Any

import duckdb

from fleetlake.errors import LakeError
from fleetlake.lake import tables
from fleetlake.lake.locks import commit_lock

CATALOG = "catalog.sqlite"
FILES = "files"
READY = ".ready"
"""File that appears once a new lake's catalog is whole."""

EXTENSIONS = ("ducklake", "sqlite_scanner")
UNCHECKED: dict[str, str | bool | int | float | list[str]] = {"allow_unsigned_extensions": True}
"""Checking the extensions' signatures takes 0.2 s of CPU at every start, so `doctor` does it.

They come in wheels whose hashes were checked when they were installed.
"""

BUSY_MILLISECONDS = 30_000
_FULL = ("no space left", "disk quota", "file too large", "database or disk is full")


class Lake:
    """An open lake; SQL runs with the lake as the default database and times in UTC."""

    def __init__(self, path: Path, connection: duckdb.DuckDBPyConnection) -> None:
        self.path = path
        self._connection = connection

    def execute(self, sql: str, parameters: object = None) -> duckdb.DuckDBPyConnection:
        """Run one or more statements. Raises: LakeError saying what to mend."""
        with lake_errors(self.path):
            return self._connection.execute(sql, parameters)

    def rows(self, sql: str, parameters: object = None) -> list[tuple[Any, ...]]:
        """Return all rows of a query. Raises: LakeError."""
        cursor = self.execute(sql, parameters)
        with lake_errors(self.path):
            return cursor.fetchall()

    def roll_back(self) -> None:
        """End the open transaction without its changes."""
        try:
            self.execute("rollback")
        except LakeError:
            # A failed commit has already ended the transaction.
            return

    @contextmanager
    def view(self, name: str, table: object) -> Iterator[None]:
        """Let SQL read an Arrow table under a name for a while."""
        self._connection.register(name, table)
        try:
            yield
        finally:
            self._connection.unregister(name)

    @property
    def connection(self) -> duckdb.DuckDBPyConnection:
        """The DuckDB connection, for queries that a person wrote."""
        return self._connection


@contextmanager
def open_lake(path: Path, *, read_only: bool = False) -> Iterator[Lake]:
    """Open the lake in a folder; writing makes it and its missing tables and columns.

    Raises: LakeError if there is no lake to read, or the folder cannot be written.
    """
    path = path.resolve()
    if read_only and not (path / CATALOG).exists():
        raise LakeError(
            f"There is no lake in {path}.",
            remedy="Run `fleetlake ingest` or `fleetlake demo` first, or set FLEETLAKE_LAKE.",
        )
    if not read_only:
        _make_folder(path)
    with lake_errors(path):
        connection = duckdb.connect(config=UNCHECKED)
    try:
        lake = Lake(path, connection)
        # Two processes must not make the same catalog at once.
        is_new = not read_only and not (path / READY).exists()
        with commit_lock(path) if is_new else nullcontext():
            lake.execute(attach_statements(path, read_only=read_only))
            if is_new:
                tables.create_missing(lake)
                (path / READY).touch()
        if not read_only and tables.has_missing(lake):
            with commit_lock(path):
                tables.create_missing(lake)
        yield lake
    finally:
        connection.close()


def attach_statements(path: Path, *, read_only: bool = False) -> str:
    """Return the statements that attach the lake in a folder as `lake`, for any DuckDB 1.5.5.

    The data path is given anew each time, so that a lake may be moved.
    """
    loads = [f"LOAD {_quoted(extension_path(name))};" for name in EXTENSIONS]
    options = (
        f"DATA_PATH {_quoted(f'{path / FILES}/')}",
        "OVERRIDE_DATA_PATH true",
        "READ_ONLY" if read_only else "META_JOURNAL_MODE 'WAL'",
        f"META_BUSY_TIMEOUT {BUSY_MILLISECONDS}",
    )
    catalog = _quoted(f"ducklake:sqlite:{path / CATALOG}")
    attach = f"ATTACH {catalog} AS lake ({', '.join(options)});"
    return "\n".join([*loads, "SET TimeZone = 'UTC';", attach, "USE lake;"])


def extension_path(name: str) -> Path:
    """Return the file of an extension in its wheel. Raises: LakeError if it is not installed."""
    try:
        root = Path(str(files(f"duckdb_extension_{name}")))
        return next(root.rglob(f"{name}.duckdb_extension"))
    except (ModuleNotFoundError, StopIteration):
        raise LakeError(
            f"DuckDB's {name} extension is not installed.",
            remedy="Install the package as the README says; `make test` does it all.",
        ) from None


@contextmanager
def lake_errors(path: Path) -> Iterator[None]:
    """Turn what DuckDB raises about the lake into one LakeError that says what to do."""
    try:
        yield
    except duckdb.Error as error:
        text = str(error)
        if any(sign in text.lower() for sign in _FULL):
            raise LakeError(
                f"The disk of {path} is full.",
                remedy="Free some space and run again; what was committed is whole.",
            ) from error
        raise LakeError(f"The lake in {path} failed: {text}.", remedy=_remedy(text)) from error


def _remedy(text: str) -> str:
    lowered = text.lower()
    if "permission denied" in lowered or "readonly" in lowered or "read-only" in lowered:
        return "Make the folder writable for this user, or set FLEETLAKE_LAKE to one that is."
    if "not a database" in lowered or "malformed" in lowered:
        return "The catalog is damaged: restore catalog.sqlite from a backup."
    return "Run `fleetlake doctor`; what was committed is whole."


def _make_folder(path: Path) -> None:
    try:
        (path / FILES).mkdir(parents=True, exist_ok=True)
        (path / "locks").mkdir(exist_ok=True)
        if not os.access(path, os.W_OK | os.X_OK):
            raise PermissionError(EACCES, os.strerror(EACCES))
    except OSError as error:
        raise LakeError(
            f"The lake folder {path} cannot be written: {error.strerror}.",
            remedy="Make it writable for this user, or set FLEETLAKE_LAKE to one that is.",
        ) from None


def _quoted(text: object) -> str:
    return "'" + str(text).replace("'", "''") + "'"
