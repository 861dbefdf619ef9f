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
_LACKING = f"end_snapshot is null and table_id not in (select table_id from {_TABLES})"


def add_statistics(lake: Lake) -> None:
    """Give statistics to all tables without any, in a transaction of their own.

    DuckLake writes in its transactions with a connection that nobody else can use, so this is a
    second transaction. If the process is killed before it, queries are slow until rows arrive.
    """
    with lake.transaction():
        lake.execute(
            f"insert into {_COLUMNS} by name select table_id, column_id, true as contains_null "
            f"from {METADATA}.ducklake_column where {_LACKING}"
        )
        lake.execute(
            f"insert into {_TABLES} by name select table_id, 0 as record_count, 0 as next_row_id, "
            f"0 as file_size_bytes from {METADATA}.ducklake_table where {_LACKING}"
        )
