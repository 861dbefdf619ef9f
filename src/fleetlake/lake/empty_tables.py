"""Statistics of tables that never had a row.

DuckLake writes a table's statistics with its first row. Until then it queries the catalog again
for each column of each query: 0.3 s for forty columns (observed 2026-11-22; fixed after DuckLake
1.5.5). So an empty table gets what DuckLake leaves behind when it inserts a row and deletes it in
one transaction. DuckLake itself needs two thirds of the creation of a lake for that.
"""

from fleetlake.lake.attach import METADATA
from fleetlake.lake.connection import Lake

_TABLES = f"{METADATA}.ducklake_table_stats"
_COLUMNS = f"{METADATA}.ducklake_table_column_stats"
_LACKING = (
    f"from {METADATA}.ducklake_schema s join {METADATA}.ducklake_table t using (schema_id) {{}} "
    "where schema_name in ('raw', 'meta', 'marts') and s.end_snapshot is null "
    f"and t.end_snapshot is null and table_id not in (select table_id from {_TABLES}) "
    f"and table_id not in (select table_id from {METADATA}.ducklake_data_file)"
)
"""Only tables of fleetlake, which are written under a lock: a user may be filling another one."""


def add_statistics(lake: Lake) -> None:
    """Give statistics to fleetlake's tables without any, in a transaction of their own.

    DuckLake writes in its transactions with a connection that nobody else can use, so this is a
    second transaction. If the process is killed before it, queries are slow until rows arrive.
    """
    with lake.transaction():
        lake.execute(
            f"insert into {_COLUMNS} by name select table_id, column_id, true as contains_null "
            + _LACKING.format(f"join {METADATA}.ducklake_column c using (table_id)")
            + " and c.end_snapshot is null"
        )
        lake.execute(
            f"insert into {_TABLES} by name select table_id, 0 as record_count, 0 as next_row_id, "
            "0 as file_size_bytes " + _LACKING.format("")
        )
