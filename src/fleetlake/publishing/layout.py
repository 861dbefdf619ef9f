"""How a published table lies on disk: one sorted run of files, or a folder for each UTC day.

A mart that says which column holds a row's day is cut by it once a day has rows enough to be
worth a file. The files keep that column, so that they read the same with and without the names
of their folders; `day=…` in a name is what lets a reader skip a file without opening it.
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
    """The order of a table's rows, and the column of dates that its folders are named after."""

    sorted_by: tuple[str, ...]
    partitioned_by: str | None = None

    @property
    def order(self) -> str:
        """The clause that sorts, so that a reader of one device or day skips the other rows."""
        first = [self.partitioned_by] if self.partitioned_by else []
        listed = ", ".join(map(quoted, [*first, *self.sorted_by]))
        return f"ORDER BY {listed}" if listed else ""

    @property
    def options(self) -> str:
        """What COPY is told of the files."""
        if self.partitioned_by:
            cut = f"PARTITION_BY ({quoted(self.partitioned_by)}), WRITE_PARTITION_COLUMNS true"
        else:
            cut = f"FILE_SIZE_BYTES '{_FILE_SIZE}'"
        return f"FORMAT parquet, COMPRESSION zstd, {cut}"


def reading(folder: Path, partitioned_by: str | None) -> str:
    """Return DuckDB's call that reads a table from its folder."""
    files = f"{exact(folder)}/{'*/*.parquet' if partitioned_by else '*.parquet'}"
    return f"read_parquet({literal(files)}, hive_partitioning = {bool(partitioned_by)})"


def layout_of(
    lake: Lake, schema: str, table: str, *, columns: Sequence[str], day_rows: int
) -> Layout:
    """Return how a table of the lake is to be published.

    `day_rows` is how many rows a day must have, on average, to be worth a folder; 0 is never.
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
