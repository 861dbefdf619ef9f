"""The one door to DuckLake: no other module names its tables, functions or settings.

The tables are DuckLake's own, and their form changes with its format: an upgrade of DuckLake is
checked here. The names of its functions that users' SQL may call are here too.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from typing import Any, Protocol

from fleetlake.text.quoting import literal
from fleetlake.text.tables_beside import statements_beside

METADATA = "__ducklake_metadata_lake"
"""The database under which DuckDB shows the catalog's own tables."""

PRESENCE = f"BEGIN; USE {METADATA}"
"""Opens the catalog file in a transaction that reads nothing and so blocks no checkpoint."""

FILES_ONLY = "set ducklake_default_data_inlining_row_limit = 0"
"""From here on, the connection writes each row to a file."""

FILES_OR_CATALOG = "set ducklake_default_data_inlining_row_limit = 100"
"""From here on, it writes few rows to the catalog, unless the lake has an option of its own.

A load of a small fleet takes a fifth less CPU time than with DuckLake's default of 10, and writes
no file at all; `maintain` later writes one for many loads. With 1,000, a load of 100 routers takes
half as much again. Only tables of single values may have rows there: 1.5.5 loses the apostrophes of
texts within lists and structs (observed 2026-11-27).
"""

READ_FUNCTIONS = (
    *("ducklake_snapshots", "ducklake_current_snapshot", "ducklake_last_committed_snapshot"),
    *("ducklake_table_info", "ducklake_list_files", "ducklake_options", "ducklake_settings"),
    *("ducklake_table_changes", "ducklake_table_insertions", "ducklake_table_deletions"),
    *("snapshots", "current_snapshot", "last_committed_snapshot", "table_info", "options"),
    *("table_changes", "table_insertions", "table_deletions", "settings"),
)
"""DuckLake's functions that only read."""

CATALOG_EXISTS = "select to_regclass('ducklake_snapshot') is not null"
CATALOG_IS_WRITABLE = "select has_table_privilege('ducklake_snapshot', 'INSERT')"
CATALOG_TABLES = "select schemaname, tablename from pg_tables where tablename like 'ducklake\\_%'"
"""Queries on a shared catalog, for PostgreSQL itself."""


class OpenLake(Protocol):
    """What the functions here need of an open lake."""

    def execute(self, sql: str, parameters: object = None) -> Any:
        """Run statements."""

    def rows(self, sql: str, parameters: object = None) -> list[tuple[Any, ...]]:
        """Return all rows of a query."""

    def transaction(self) -> AbstractContextManager[None]:
        """Commit everything done within the block, or nothing."""


def _table(name: str) -> str:
    return f"{METADATA}.ducklake_{name}"


_NAMED = (
    f"{_table('table')} t join {_table('schema')} s on s.schema_id = t.schema_id "
    "and t.end_snapshot is null and s.end_snapshot is null"
)
"""The present tables `t` and their schemas `s`."""

_WRITTEN = statements_beside(__file__, "ducklake.sql")
_NAMES = {"dl": f"{METADATA}.ducklake_", "named": _NAMED}
_NAMES["lacking"] = _WRITTEN["lacking"].format(**_NAMES)
_SQL = {name: sql.format(**_NAMES) for name, sql in _WRITTEN.items()}

RAW_ROWS = _SQL["raw_rows"]
"""Counts the rows of the raw tables."""

TABLE_IDS = _SQL["table_ids"]
"""The names of all tables that ever were, by id, as `lake.snapshots()` names them."""

UNUSED_TABLES = _SQL["unused_tables"]
"""The tables that never had a row."""


# Snapshots


def newest_snapshot(lake: OpenLake) -> int:
    """Return the lake's newest snapshot, without the changes that each of them made."""
    [(newest,)] = lake.rows(f"select max(snapshot_id) from {_table('snapshot')}")
    return int(newest)


SNAPSHOT_ID = "select id from ducklake_current_snapshot('lake')"
"""The snapshot that a transaction reads."""


def read_snapshot(lake: OpenLake) -> tuple[int, str]:
    """Return the snapshot that the open transaction reads, and when it was made."""
    [(number, made_at)] = lake.rows(
        "select snapshot_id, snapshot_time::varchar from lake.snapshots() "
        f"where snapshot_id = ({SNAPSHOT_ID})"
    )
    return int(number), str(made_at)


def between_hours(lake: OpenLake, older_than: timedelta) -> list[int]:
    """Return the snapshots older than this that are not the last one of their hour."""
    found = lake.rows(_SQL["not_last_of_hour"], [older_than.total_seconds()])
    return [number for (number,) in found]


def expired_condition(column: str) -> str:
    """Return the SQL condition of rows whose column names a snapshot that has expired."""
    return f"{column} not in (select snapshot_id from {_table('snapshot')})"


def expire(lake: OpenLake, snapshots: Sequence[int]) -> None:
    """Forget these snapshots; their files go with `remove_unused_files`."""
    lake.execute(f"call ducklake_expire_snapshots('lake', versions => {[*map(int, snapshots)]})")


def expire_older(lake: OpenLake, age: timedelta) -> int:
    """Forget all snapshots older than this, but for the newest; return how many."""
    return len(lake.rows(f"call ducklake_expire_snapshots('lake', older_than => {_ago(age)})"))


# Files


def flush_rows(lake: OpenLake, schema: str = "", table: str = "") -> None:
    """Write the rows that the catalog holds to files: those of one table, or of all."""
    one = f", schema_name => {literal(schema)}, table_name => {literal(table)}" if table else ""
    lake.execute(f"call ducklake_flush_inlined_data('lake'{one})")


def merge_files(lake: OpenLake) -> None:
    """Write small files into fewer large ones."""
    lake.execute("call ducklake_merge_adjacent_files('lake')")


def rewrite_files(lake: OpenLake) -> None:
    """Write the files anew that lost many of their rows."""
    lake.execute("call ducklake_rewrite_data_files('lake')")


def rewrite_all_files(lake: OpenLake, schema: str = "", table: str = "") -> None:
    """Write every file anew that lost a row: those of one table, or of all tables."""
    one = f", {literal(table)}, schema => {literal(schema)}" if table else ""
    lake.execute(f"call ducklake_rewrite_data_files('lake'{one}, delete_threshold => 0)")


def files_that_lost_rows(lake: OpenLake) -> dict[tuple[str, str], int]:
    """Return how many files have lost rows, by schema and table; they are not merged."""
    found = lake.rows(_SQL["files_that_lost_rows"])
    return {(schema, table): count for schema, table, count in found}


def remove_unused_files(lake: OpenLake) -> int:
    """Delete the files that no snapshot reads; return how many."""
    return len(lake.rows("call ducklake_cleanup_old_files('lake', cleanup_all => true)"))


def remove_strays(lake: OpenLake, age: timedelta) -> int:
    """Delete the files older than this that the catalog does not name; return how many."""
    return len(lake.rows(f"call ducklake_delete_orphaned_files('lake', older_than => {_ago(age)})"))


def _ago(age: timedelta) -> str:
    return f"now() - interval '{int(age.total_seconds())} seconds'"


def storage(lake: OpenLake) -> tuple[int, int, int, int]:
    """Return the data files and their bytes, and the delete files and theirs."""
    [counts] = lake.rows(_SQL["storage"])
    files, size, deletes, delete_size = map(int, counts)
    return files, size, deletes, delete_size


def files_of(schema: str, table: str) -> str:
    """Return the SQL relation of a table's present files: `data_file` and `delete_file`."""
    return f"ducklake_list_files('lake', {literal(table)}, schema => {literal(schema)})"


def data_files(lake: OpenLake) -> dict[str, str]:
    """Return the table of each data file that the catalog names, by the file's name."""
    return dict(lake.rows(_SQL["data_files"]))


def files_of_all_snapshots(lake: OpenLake) -> list[tuple[Any, ...]]:
    """Return the files that any snapshot reads.

    Each is the paths of its schema, its table and itself, how many of these are relative, and then
    the members of `fleetlake.care.integrity.listing.ListedFile` but the name.
    """
    return lake.rows(_SQL["files_of_all_snapshots"])


def files_to_remove(lake: OpenLake) -> list[str]:
    """Return the files that no snapshot reads any more and the next maintenance removes."""
    return [name for (name,) in lake.rows(_SQL["files_to_remove"])]


# A catalog's copy, which SQLite opens without DuckDB


def end_removals(copy: sqlite3.Connection) -> None:
    """Forget the files that await removal: a later cleanup would look for them in vain."""
    copy.execute("delete from ducklake_files_scheduled_for_deletion")
    copy.commit()


def identity_of(copy: sqlite3.Connection) -> tuple[str, int]:
    """Return the lake's id and its newest snapshot."""
    [(lake_id,)] = copy.execute("select schema_uuid from ducklake_schema where schema_id = 0")
    [(snapshot_id,)] = copy.execute("select max(snapshot_id) from ducklake_snapshot")
    return lake_id, snapshot_id


def files_in(copy: sqlite3.Connection) -> Iterator[tuple[str, str, str, int, bool]]:
    """Yield of each file the paths of schema, table and itself, its bytes, if all are relative."""
    yield from copy.execute(_WRITTEN["files_in"])


# Tables and what changed in them


def lake_uuid(lake: OpenLake) -> str:
    """Return the id of a lake, which its copies and backups have too."""
    [(uuid,)] = lake.rows(f"select schema_uuid from {_table('schema')} where schema_id = 0")
    return str(uuid)


def table_uuid(lake: OpenLake, schema: str, table: str) -> str:
    """Return the id of a table, which it keeps when it is renamed and a new one does not get."""
    [(uuid,)] = lake.rows(_SQL["table_uuid"], [schema, table])
    return str(uuid)


def tables_in(lake: OpenLake, *schemas: str) -> list[tuple[str, str]]:
    """Return the tables in some schemas, as pairs of schema and table, in this order.

    DuckDB's own `duckdb_tables()` reads the statistics of every table, 1 ms of CPU for each, the
    first time after a commit (1.5.5).
    """
    found = lake.rows(f"select s.schema_name, t.table_name from {_NAMED}")
    return sorted((schema, table) for schema, table in found if schema in schemas)


def columns_in(lake: OpenLake, schema: str) -> frozenset[tuple[str, str]]:
    """Return the columns of the tables in a schema, as pairs of table and column."""
    found = columns_of_tables(lake, schema)
    return frozenset((table, name) for (_, table), names in found.items() for name in names)


def columns_of_tables(lake: OpenLake, *schemas: str) -> dict[tuple[str, str], set[str]]:
    """Return the columns of the tables in some schemas, by schema and table."""
    sql = (
        f"select s.schema_name, t.table_name, c.column_name from {_NAMED} "
        f"join {_table('column')} c on c.table_id = t.table_id and c.end_snapshot is null "
        f"where s.schema_name in ({', '.join('?' * len(schemas))}) and c.parent_column is null"
    )
    found: dict[tuple[str, str], set[str]] = {}
    for schema, table, column in lake.rows(sql, schemas):
        found.setdefault((schema, table), set()).add(column)
    return found


def bounds_in(lake: OpenLake, schema: str, column: str) -> dict[str, tuple[str | None, str | None]]:
    """Return the least and the greatest value that a column ever had, by table that had a row."""
    found = lake.rows(_SQL["bounds"], [schema, column])
    return {name: (low, high) for name, low, high in found}


def feed(schema: str, table: str, first: int, last: int) -> Iterator[tuple[str, bool]]:
    """Yield the SQL relations of the rows of snapshots, and whether these arrived or departed.

    `ducklake_table_changes` joins both by snapshot, and gives some rows twice: of rows that the
    catalog held, it dates deletes wrongly once they are in files (observed 2026-11-25 with 1.5.5).
    """
    window = f"'lake', {literal(schema)}, {literal(table)}, {first}, {last}"
    for kind, is_arrival in (("insertions", True), ("deletions", False)):
        yield f"ducklake_table_{kind}({window})", is_arrival


# Statistics


def add_statistics(lake: OpenLake) -> None:
    """Give statistics to fleetlake's tables that never had a row, in a transaction of their own.

    DuckLake writes a table's statistics with its first row. Until then it queries the catalog again
    for each column of each query: 0.3 s for forty columns (observed 2026-11-22; fixed after 1.5.5).
    So an empty table gets what DuckLake leaves behind when it inserts a row and deletes it in one
    transaction. DuckLake itself needs two thirds of the creation of a lake for that.

    DuckLake writes in its transactions with a connection that nothing else can use, so this is a
    second transaction. If the process is killed before it, queries are slow until rows arrive.
    """
    with lake.transaction():
        lake.execute(_SQL["add_column_statistics"])
        lake.execute(_SQL["add_table_statistics"])


def correct_statistics(lake: OpenLake) -> None:
    """Set the least and greatest value of each column to those of the present files.

    DuckLake 1.5.5 only ever widens these: they would keep an erased name (observed 2026-11-23).
    """
    for kind, typed in _SQL_TYPES.items():
        wrong = lake.rows(_SQL["wrong_statistics"].replace("::$", f"::{typed}"), [kind])
        for table_id, column_id, *values in wrong:
            least, greatest = ("null" if v is None else literal(v) for v in values)
            lake.execute(
                f"update {_table('table_column_stats')} "
                f"set min_value = {least}, max_value = {greatest} "
                f"where table_id = {int(table_id)} and column_id = {int(column_id)}"
            )


_SQL_TYPES = {
    **{name: name for name in ("varchar", "boolean", "date", "timestamptz", "timestamp")},
    "json": "varchar",
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "integer",
    "int64": "bigint",
    "int128": "hugeint",
    "float32": "float",
    "float64": "double",
}
"""The types of the lake's columns, as DuckLake names them, and as DuckDB does."""


def time_range(lake: OpenLake, raw_table: str, column: str) -> tuple[datetime, datetime] | None:
    """Return the bounds of a column of times by the table's statistics; None if unknown."""
    first, last = bounds_in(lake, "raw", column).get(raw_table, (None, None))
    return (datetime.fromisoformat(first), datetime.fromisoformat(last)) if first and last else None


def newest_times(lake: OpenLake) -> dict[tuple[str, str], datetime]:
    """Return the newest value in the files by raw table and column of times."""
    found = lake.rows(_SQL["newest_times"])
    return {(name, column): datetime.fromisoformat(at) for name, column, at in found if at}


def newest_in_marts(lake: OpenLake, column: str) -> datetime | None:
    """Return the newest value in the files of all marts that have a column of times."""
    [(found,)] = lake.rows(_SQL["newest_in_marts"], [column])
    return datetime.fromisoformat(found) if found else None


def file_statistics(lake: OpenLake, data_file_id: int) -> dict[str, tuple[str | None, str | None]]:
    """Return the smallest and the largest value of each column of a file, as the catalog has it."""
    found = lake.rows(_SQL["file_statistics"], [data_file_id])
    return {name: (low, high) for name, low, high in found}


def file_columns(lake: OpenLake, data_file_id: int) -> list[tuple[str, int]]:
    """Return the columns that a data file has, by name and field id."""
    found = lake.rows(_SQL["file_columns"], [data_file_id])
    return [(name, number) for name, number in found]


INTERNAL = "_ducklake_internal"
"""Beginning of the names of the columns that DuckLake adds to a data file."""


def contradictions(lake: OpenLake) -> Iterator[str]:
    """Yield what the catalog's tables say against each other."""
    for count, what in lake.rows(_SQL["contradictions"]):
        if count:
            yield f"{count:,} {what}"
