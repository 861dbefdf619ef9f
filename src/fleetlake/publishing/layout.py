"""The layout of a published table on disk: sorted files, or one folder per UTC day.

A mart with a date column is partitioned by it once it has enough rows per day. The files keep the
column, so they can be read with or without the folder names. A reader uses `day=…` in a folder
name to skip files without opening them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fleetlake.endpoints import ENDPOINTS
from fleetlake.lake import Lake
from fleetlake.marts.catalogue import mart_dates, mart_keys
from fleetlake.text.quoting import exact, literal, quoted

_FILE_SIZE = "256MB"


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The sort order of a table's rows, and the date column that partitions it, if any."""

    sorted_by: tuple[str, ...]
    partitioned_by: str | None = None

    @property
    def order(self) -> str:
        """The ORDER BY clause; sorting lets a reader of one device or day skip other rows."""
        first = [self.partitioned_by] if self.partitioned_by else []
        listed = ", ".join(map(quoted, [*first, *self.sorted_by]))
        return f"ORDER BY {listed}" if listed else ""

    @property
    def options(self) -> str:
        """The options of the COPY statement."""
        if self.partitioned_by:
            cut = f"PARTITION_BY ({quoted(self.partitioned_by)}), WRITE_PARTITION_COLUMNS true"
        else:
            cut = f"FILE_SIZE_BYTES '{_FILE_SIZE}'"
        return f"FORMAT parquet, COMPRESSION zstd, {cut}"


def read_call(folder: Path, partitioned_by: str | None, *, moved_to: str | None = None) -> str:
    """Return the DuckDB function call that reads a table from its folder.

    `moved_to` names a variable that can hold another folder for that of the snapshot.
    """
    parent, files = literal(exact(folder.parent)), "*/*.parquet" if partitioned_by else "*.parquet"
    if moved_to:
        parent = f"coalesce(getvariable({literal(moved_to)}), {parent})"
    path = f"{parent} || {literal(f'/{exact(folder.name)}/{files}')}"
    return f"read_parquet({path}, hive_partitioning = {bool(partitioned_by)})"


def layout_of(
    lake: Lake, schema: str, table: str, *, columns: Sequence[str], day_rows: int
) -> Layout:
    """Return the layout in which to publish a table of the lake.

    `day_rows` is the average number of rows per day from which a table is partitioned; 0 turns
    partitioning off.
    """
    key = ENDPOINTS[table].key if schema == "raw" else mart_keys().get(table, ())
    sorted_by = tuple(name for name in key if name in columns)
    date = mart_dates().get(table) if schema == "marts" else None
    if date is None or date not in columns or not day_rows:
        return Layout(sorted_by=sorted_by)
    day = quoted(date)
    [(rows, dated, days)] = lake.rows(
        f"SELECT count(*), count({day}), count(DISTINCT {day}) FROM {schema}.{quoted(table)}"
    )
    is_large = rows > 0 and rows >= days * day_rows and dated == rows
    return Layout(sorted_by=sorted_by, partitioned_by=date if is_large else None)
