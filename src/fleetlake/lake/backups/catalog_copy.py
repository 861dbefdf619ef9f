"""A consistent copy of a lake's catalog, made while loads go on, and the files that it names.

The catalog is one SQLite file. SQLite's backup reads one state of it, and no writer waits for that.
Rows that the catalog itself holds are in the copy; all others are in files that no commit changes.

The format of the lake does not matter here, so a lake can be backed up before it is upgraded.
"""

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import quote

from fleetlake.errors import LakeError
from fleetlake.lake.attach import BUSY_MILLISECONDS, CATALOG
from fleetlake.lake.ducklake import end_removals, files_in, identity_of
from fleetlake.lake.locks import open_lock
from fleetlake.machine.io_faults import io_fault


@dataclass(frozen=True, kw_only=True)
class CatalogCopy:
    """A copied catalog: the lake's identity, its newest snapshot, and the bytes of each file.

    Files are named relative to the lake's folder of files. Those of older snapshots, which time
    travel and exports read, are among them.
    """

    path: Path
    lake_id: str
    snapshot_id: int
    files: dict[str, int]


def copy_catalog(lake: Path, to: Path) -> CatalogCopy:
    """Copy the catalog of a lake in a folder.

    This process must not have the lake open: closing the file here would release the locks of
    DuckDB's own SQLite. Raises: LakeError if the catalog cannot be read, or is damaged.
    """
    try:
        with open_lock(lake):
            source = sqlite3.connect(
                f"file:{quote(str(lake / CATALOG))}?mode=ro",
                uri=True,
                timeout=BUSY_MILLISECONDS / 1000,
            )
        try:
            with closing(sqlite3.connect(to)) as copy:
                source.backup(copy)
                return _prepared(copy, to, lake)
        finally:
            with open_lock(lake):
                source.close()
    except sqlite3.Error as error:
        if fault := io_fault(error, to if "full" in str(error) else lake):
            raise fault from None
        raise LakeError(
            f"The catalog of the lake in {lake} could not be copied: {error}.",
            remedy="Run `fleetlake doctor`. Earlier backups are unchanged.",
        ) from None


def _prepared(copy: sqlite3.Connection, path: Path, lake: Path) -> CatalogCopy:
    """Check a copied catalog, make it one file that stands alone, and list what it names."""
    copy.execute("pragma journal_mode = delete")
    [(said,)] = copy.execute("pragma quick_check(1)").fetchall()
    if said != "ok":
        raise LakeError(
            f"The catalog of the lake in {lake} is damaged: {said}.",
            remedy="Restore the lake from an earlier backup, which is unchanged.",
        )
    end_removals(copy)
    lake_id, snapshot_id = identity_of(copy)
    return CatalogCopy(
        path=path, lake_id=lake_id, snapshot_id=snapshot_id, files=_files(copy, lake)
    )


def _files(copy: sqlite3.Connection, lake: Path) -> dict[str, int]:
    files: dict[str, int] = {}
    for schema, table, name, size, is_relative in files_in(copy):
        if not is_relative:
            raise LakeError(
                f"The catalog of the lake in {lake} names a file outside the lake, {name}.",
                remedy="fleetlake does not write such files: copy the lake with the tool that did.",
            )
        files[str(PurePosixPath(schema, table, name))] = size
    return files
