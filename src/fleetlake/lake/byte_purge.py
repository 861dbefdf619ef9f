"""Removing the bytes of deleted rows from a lake: its files, its snapshots and its catalog.

Deleting rows leaves their bytes in data files until each is rewritten, in the files of older
snapshots, in rows and statistics of the catalog, and in free pages of the catalog's own file. The
order matters: rows in the catalog become files first, and every older snapshot expires.
"""

import sqlite3
from contextlib import closing
from pathlib import Path

from fleetlake.errors import LakeError
from fleetlake.lake.attach import BUSY_MILLISECONDS, CATALOG, METADATA
from fleetlake.lake.connection import Lake
from fleetlake.lake.durable import flush_files
from fleetlake.lake.locks import commit_lock, open_lock
from fleetlake.lake.maintenance import one_thread
from fleetlake.lake_address import LakeAddress, SharedLake
from fleetlake.machine.io_faults import io_fault
from fleetlake.text.quoting import literal, quoted


def data_files(lake: Lake) -> dict[str, str]:
    """Return the table of each data file that the catalog names, by the file's name."""
    return dict(
        lake.rows(
            f"select f.path, s.schema_name || '.' || t.table_name from {METADATA}."
            f"ducklake_data_file f join {METADATA}.ducklake_table t using (table_id) "
            f"join {METADATA}.ducklake_schema s using (schema_id)"
        )
    )


def purge_files(lake: Lake) -> None:
    """Rewrite every file with deleted rows, and remove all snapshots but the newest.

    The caller holds `quiet_lake`. Time travel ends here, and exports start from a full copy.
    """
    with commit_lock(lake.path):
        with one_thread(lake), lake.transaction():
            lake.execute("call ducklake_flush_inlined_data('lake')")
        with lake.transaction():
            lake.execute("call ducklake_rewrite_data_files('lake', delete_threshold => 0)")
        with lake.transaction():
            lake.execute("call ducklake_expire_snapshots('lake', older_than => now())")
        flush_files(lake.path)  # the catalog must forget a file before the disk does
        lake.execute("call ducklake_cleanup_old_files('lake', cleanup_all => true)")
        # No commit is under way, so a file that the catalog does not name is a stopped one's.
        lake.execute("call ducklake_delete_orphaned_files('lake', older_than => now())")
        _correct_statistics(lake)


def _correct_statistics(lake: Lake) -> None:
    """Set the least and greatest value of each column to those of the present files.

    DuckLake 1.5.5 only ever widens these: they would keep an erased name (observed 2026-11-23).
    """
    for kind, typed in _SQL_TYPES.items():
        wrong = lake.rows(
            "select s.table_id, s.column_id, min(f.min_value::$)::varchar as least, "
            "max(f.max_value::$)::varchar as greatest "
            f"from {METADATA}.ducklake_table_column_stats s "
            f"join {METADATA}.ducklake_column c using (table_id, column_id) "
            f"left join {METADATA}.ducklake_file_column_stats f using (table_id, column_id) "
            "where c.end_snapshot is null and s.extra_stats is null and c.column_type = ? "
            "group by s.table_id, s.column_id, s.min_value, s.max_value "
            "having least is distinct from s.min_value "
            "or greatest is distinct from s.max_value".replace("$", typed),
            [kind],
        )
        for table_id, column_id, *values in wrong:
            least, greatest = ("null" if v is None else literal(v) for v in values)
            lake.execute(
                f"update {METADATA}.ducklake_table_column_stats "
                f"set min_value = {least}, max_value = {greatest} "
                f"where table_id = {int(table_id)} and column_id = {int(column_id)}"
            )


_SQL_TYPES = {
    "varchar": "varchar",
    "json": "varchar",
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "integer",
    "int64": "bigint",
    "int128": "hugeint",
    "float32": "float",
    "float64": "double",
    "boolean": "boolean",
    "date": "date",
    "timestamptz": "timestamptz",
    "timestamp": "timestamp",
}
"""The types of the lake's columns, as DuckLake names them, and as DuckDB does."""


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
        cursor.execute(
            "select schemaname, tablename from pg_tables where tablename like 'ducklake\\_%'"
        )
        for schema, table in cursor.fetchall():
            cursor.execute(f"vacuum (full, analyze) {quoted(schema)}.{quoted(table)}")
