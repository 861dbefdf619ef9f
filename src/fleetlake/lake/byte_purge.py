"""Removing the bytes of deleted rows from a lake: its files, its snapshots and its catalog.

Deleting rows leaves their bytes in data files until each is rewritten, in the files of older
snapshots, in rows and statistics of the catalog, and in free pages of the catalog's own file. The
order matters: rows in the catalog become files first, and every older snapshot expires.
"""

import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path

from fleetlake.errors import LakeError
from fleetlake.lake import ducklake
from fleetlake.lake.attach import BUSY_MILLISECONDS, CATALOG
from fleetlake.lake.connection import Lake
from fleetlake.lake.durable import flush_files
from fleetlake.lake.locks import commit_lock, open_lock
from fleetlake.lake.maintenance import one_thread
from fleetlake.lake_address import LakeAddress, SharedLake
from fleetlake.machine.io_faults import io_fault
from fleetlake.text.quoting import quoted


def purge_files(lake: Lake) -> None:
    """Rewrite every file with deleted rows, and remove all snapshots but the newest.

    The caller holds `quiet_lake`. Time travel ends here, and exports start from a full copy.
    """
    with commit_lock(lake.path):
        with one_thread(lake), lake.transaction():
            ducklake.flush_rows(lake)
        with lake.transaction():
            ducklake.rewrite_all_files(lake)
        with lake.transaction():
            ducklake.expire_older(lake, timedelta())
        flush_files(lake.path)  # the catalog must forget a file before the disk does
        ducklake.remove_unused_files(lake)
        # No commit is under way, so a file that the catalog does not name is a stopped one's.
        ducklake.remove_strays(lake, timedelta())
        ducklake.correct_statistics(lake)


def purge_catalog(lake: LakeAddress) -> None:
    """Rewrite the catalog without the bytes of deleted rows. This process has no lake open.

    Raises: LakeError if another process reads the catalog for too long.
    """
    with commit_lock(lake):
        if isinstance(lake, SharedLake):
            _vacuum_database(lake)
            return
        try:
            _vacuum_file(lake)
        except sqlite3.Error as error:
            if fault := io_fault(error, lake):
                raise LakeError(
                    f"The catalog of the lake in {lake} still holds bytes of deleted rows. "
                    f"{fault.what}",
                    remedy=fault.remedy,
                ) from None
            raise LakeError(
                f"The catalog of the lake in {lake} still holds bytes of deleted rows: {error}.",
                remedy="End other programs that read the lake, then run the same command again.",
            ) from None


def _vacuum_file(lake: Path) -> None:
    with open_lock(lake):
        catalog = sqlite3.connect(
            lake / CATALOG, timeout=BUSY_MILLISECONDS / 1000, isolation_level=None
        )
    with closing(catalog):
        catalog.execute("pragma secure_delete = on")
        catalog.execute("vacuum")
        [is_busy, *_] = catalog.execute("pragma wal_checkpoint(truncate)").fetchone()
        if is_busy:
            raise sqlite3.OperationalError("another process is reading it")


def _vacuum_database(lake: SharedLake) -> None:
    """Rewrite the tables of a shared catalog; its log and backups are not ours."""
    with closing(lake.connect()) as connection, closing(connection.cursor()) as cursor:
        cursor.execute(ducklake.CATALOG_TABLES)
        for schema, table in cursor.fetchall():
            cursor.execute(f"vacuum (full, analyze) {quoted(schema)}.{quoted(table)}")
