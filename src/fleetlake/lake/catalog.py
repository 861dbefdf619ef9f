"""Opening a lake: DuckDB with the DuckLake extension, and tables for all endpoints.

A shared lake's catalog is in PostgreSQL. In a folder, the catalog is one SQLite file in write-ahead
mode, so readers never wait for a writer.

That holds only while some process has the SQLite file open. The last process to close it locks
others out while it empties the log. DuckDB opens and closes the file for each transaction and waits
a whole second before it retries, because its SQLite has no shorter sleep (1.5.5). So an open lake
keeps the file open, and only one process at a time opens or closes it.
"""

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext, suppress
from errno import EACCES
from pathlib import Path

import duckdb

from fleetlake.errors import LakeError
from fleetlake.lake.attach import CATALOG, FILES, ONE_THREAD, UNCHECKED, no_lake, set_threads
from fleetlake.lake.connection import Lake, lake_errors
from fleetlake.lake.ducklake import CATALOG_EXISTS, CATALOG_IS_WRITABLE
from fleetlake.lake.evolution.format import has_tables, read_format, require_known_format
from fleetlake.lake.locks import commit_lock, open_lock
from fleetlake.lake_address import LakeAddress, refuse_unusable
from fleetlake.machine.io_faults import not_writable
from fleetlake.machine.ownership import require_own
from fleetlake.machine.umask import apply_umask

READY = ".ready"
"""File that marks the catalog of a new lake as complete."""

RESTORING = ".restoring"
"""File that marks a folder into which a backup is being restored."""


def _few(threads: int) -> dict[str, int | str]:
    """Return DuckDB's settings for few threads and little memory.

    After a task that allocated this much, DuckDB returns memory to the system; by default, 128 MB.
    """
    return {"threads": threads, "allocator_flush_threshold": "8MB"}


@contextmanager
def open_lake(
    path: LakeAddress,
    *,
    read_only: bool = False,
    must_exist: bool = False,
    threads: int | None = None,
) -> Iterator[Lake]:
    """Open the lake in a folder, or a shared one. Opening for writing creates missing parts.

    `must_exist` creates no lake where there is none, as `read_only` never does.

    `threads` is DuckDB's number of threads, by default one for each four million rows, at most one
    per core. One is best for many small statements.

    Applies FLEETLAKE_UMASK to everything this process writes from then on.

    Raises: LakeError if there is no lake to read, or if the folder is not writable or belongs to
    another user, or if its format is not this release's. The first opening for writing upgrades it.
    """
    apply_umask()
    path = path.resolve()
    if must_exist or (read_only and isinstance(path, Path)):
        require_lake(path)
    elif isinstance(path, Path):
        _make_folder(path)
    with lake_errors(path):
        connection = duckdb.connect(config=UNCHECKED | (_few(threads) if threads else ONE_THREAD))
    try:
        lake = Lake(path, connection)
        # Two processes must not create the same catalog at once.
        is_new = not read_only and not (isinstance(path, Path) and (path / READY).exists())
        with commit_lock(path) if is_new else nullcontext():
            with open_lock(path):
                lake.attach(read_only=read_only)
            with lake_errors(path):
                known = require_known_format(lake, read_only=read_only)
                if threads is None:
                    set_threads(connection)
            if is_new:
                if not has_tables(lake):
                    from fleetlake.lake.tables import create_missing  # noqa: PLC0415 - seldom

                    create_missing(lake)
                    known = read_format(lake)
                if isinstance(path, Path):  # a shared one is checked each time it is opened
                    (path / READY).touch()
        if not read_only:
            from fleetlake.lake.evolution.upgrade import upgrade  # noqa: PLC0415 - those who only read need it not

            upgrade(lake, known)
        yield lake
    finally:
        with open_lock(path):
            connection.close()


@contextmanager
def open_as_is(path: LakeAddress, *, read_only: bool = True) -> Iterator[Lake]:
    """Open a lake that may be damaged: nothing is created, upgraded or required of its tables.

    Raises: LakeError if DuckDB cannot attach it, or if its format is newer than this release's.
    """
    with lake_errors(path):
        connection = duckdb.connect(config=UNCHECKED)
        # A file that is replaced within a second would still be read as it was before.
        connection.execute("set enable_external_file_cache = false")
    try:
        lake = Lake(path, connection)
        with open_lock(path):
            lake.attach(read_only=read_only)
        with suppress(duckdb.Error):  # the file that holds the format may be damaged, too
            require_known_format(lake, read_only=False)
        yield lake
    finally:
        with open_lock(path):
            connection.close()


def require_lake(path: LakeAddress) -> None:
    """Raise LakeError if there is no lake in a folder or a shared catalog."""
    if not has_lake(path):
        raise no_lake(path)


def require_catalog(path: Path) -> None:
    """Raise LakeError if a folder holds the files of a lake without its catalog.

    A new, empty catalog would hide them, and loads would start from nothing beside them.
    """
    if is_catalog_lost(path):
        raise LakeError(
            f"The lake in {path.resolve()} has lost its catalog: {CATALOG} is missing or empty, "
            "but the lake's files are there.",
            remedy="Restore the lake from a backup with `fleetlake restore`, or run "
            "`fleetlake repair --rebuild-catalog`, which makes a catalog from the files.",
        )


def is_catalog_lost(path: Path) -> bool:
    """Return whether a folder holds the files of a lake whose catalog is missing or empty."""
    file, files = path / CATALOG, path / FILES
    if (path / RESTORING).exists() or (file.exists() and file.stat().st_size):
        return False
    is_complete = (path / READY).exists() and files.is_dir()
    return is_complete or any(True for _ in files.rglob("*.parquet"))


def has_lake(path: LakeAddress) -> bool:
    """Return whether a lake exists in a folder, or in a shared catalog.

    Raises: LakeError if the folder's catalog is lost, or if the shared one does not answer.
    """
    if isinstance(path, Path):
        require_catalog(path)
        return (path / CATALOG).exists()
    with closing(path.connect()) as connection, closing(connection.cursor()) as cursor:
        cursor.execute(CATALOG_EXISTS)
        [found] = cursor.fetchone()
    return bool(found)


def is_empty(lake: Lake) -> bool:
    """Return whether nothing was ever loaded into a lake."""
    return not lake.rows("select 1 from meta.watermarks limit 1")


def require_writable(path: LakeAddress) -> None:
    """Raise LakeError if this user may not write to an existing lake. Changes nothing."""
    if isinstance(path, Path):
        _refuse_unusable(path)
        _require_access(path, path / FILES, path / "locks")
        if not os.access(path / CATALOG, os.W_OK):
            raise LakeError(
                f"Cannot write to the lake's catalog {path / CATALOG}: {os.strerror(EACCES)}.",
                remedy="Make the file writable for this user.",
            )
        return
    if "://" not in path.files:
        _require_access(Path(path.files))
    with closing(path.connect()) as connection, closing(connection.cursor()) as cursor:
        cursor.execute(CATALOG_IS_WRITABLE)
        [is_allowed] = cursor.fetchone()
    if not is_allowed:
        raise LakeError(
            f"This user may read the catalog of {path}, but not write to it.",
            remedy="Let its owner grant the right to insert, or give FLEETLAKE_LAKE another user.",
        )


def _make_folder(path: Path) -> None:
    _refuse_unusable(path)
    try:
        (path / FILES).mkdir(parents=True, exist_ok=True)
        (path / "locks").mkdir(exist_ok=True)
    except OSError as error:
        raise not_writable("lake", path, error, setting="FLEETLAKE_LAKE") from None
    _require_access(path)


def _refuse_unusable(path: Path) -> None:
    """Raise LakeError for a folder of another user, or one that cannot be a lake now."""
    otherwise = "set FLEETLAKE_LAKE to a folder of your own"
    for folder in (path, path / FILES, path / "locks"):
        require_own(folder, "lake", otherwise=otherwise)
    for file in (CATALOG, f"{CATALOG}-wal", READY):
        require_own(path / file, "lake", otherwise=otherwise, kind="file")
    refuse_unusable("lake", path, setting="FLEETLAKE_LAKE")
    if (path / RESTORING).exists() and not has_lake(path):
        raise LakeError(
            f"The restore of the lake in {path} has not ended.",
            remedy="Wait for it. If it was stopped, run `fleetlake restore` again.",
        )
    require_catalog(path)


def is_writable(path: LakeAddress) -> bool:
    """Return whether this user may write to an existing lake. Changes nothing."""
    try:
        require_writable(path)
    except LakeError:
        return False
    return True


def _require_access(*paths: Path) -> None:
    """Raise LakeError naming the first folder that is there and that this user may not change."""
    for path in paths:
        if path.exists() and not os.access(path, os.W_OK | os.X_OK):
            error = PermissionError(EACCES, os.strerror(EACCES))
            raise not_writable("lake", path, error, setting="FLEETLAKE_LAKE")
