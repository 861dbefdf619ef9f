"""The layout of a published table on disk: sorted files, or one folder per UTC day.

A mart with a date column is partitioned by it once it has enough rows per day. The files keep the
column, so they can be read with or without the folder names. A reader uses `day=…` in a folder
name to skip files without opening them.

A coarse snapshot has rounded places and no names. What a raw column reveals follows from the
vocabulary. In marts it follows from the column's name, which has one meaning in all of them; a test
requires every text column of our marts to be known here or to be harmless. Ids stay, since rows are
joined by them: they mean something only to who can ask the service.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from fleetlake.endpoints import ENDPOINTS
from fleetlake.endpoints.columns import Privacy
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


DECIMALS = 3
"""Decimals of a degree: 111 m from north to south, and less from east to west."""

_PLACE = re.compile(r"(^|_)(latitude|longitude)(_deg)?$")
_NAMING = re.compile(r"(^|_)(name|email|username|hostname|actor|serial|imei|iccid|imsi|mac)$")
_OF_NOBODY = {"product_name", "type_name", "carrier_name", "net_device_name", "full_product_name"}
_TELLING = {"asset_tag", "changes", "summary", "ip_address", "cause_description", "serial_number"}
"""Columns of marts that hold names or free text, beyond those that are named so."""
_COMPOSED = {("attention", "message")}
"""Texts that our own SQL composes of figures, interfaces, carriers and reasons, without a name."""


def coarse_columns(
    schema: str, table: str, columns: Iterable[tuple[str, str]]
) -> Iterator[tuple[str, str]]:
    """Yield the columns of a table that a coarse snapshot shows, each with the SQL of its value.

    `columns` are names and SQL types.
    """
    for name, kind in columns:
        told = _revealed_in_raw(table, name) if schema == "raw" else revealed_in_marts(name)
        if schema == "marts" and (table, name) in _COMPOSED:
            told = None
        if told is None:
            yield name, f"{quoted(name)}::{kind}"
        elif told is Privacy.PLACE:
            yield name, f"round({quoted(name)}, {DECIMALS})::{kind}"


def revealed_in_marts(name: str) -> Privacy | None:
    """Return what a column of a mart reveals, by its name; None if it reveals nothing.

    >>> revealed_in_marts("start_latitude_deg"), revealed_in_marts("router_name")
    (<Privacy.PLACE: 'place'>, <Privacy.NAME: 'name'>)
    >>> revealed_in_marts("product_name"), revealed_in_marts("description")
    (None, <Privacy.TEXT: 'text'>)
    """
    if _PLACE.search(name):
        return Privacy.PLACE
    if name in _OF_NOBODY:
        return None
    if name in _TELLING:
        return Privacy.TEXT
    return Privacy.NAME if _NAMING.search(name) else _vocabulary().get(name)


def _revealed_in_raw(endpoint: str, name: str) -> Privacy | None:
    """Return what a column of a raw table reveals; one that this release lacks may be text."""
    from fleetlake.lake.tables import PROVENANCE, VERSIONS  # noqa: PLC0415 - it imports what loads

    known = {column.name: column.privacy for column in ENDPOINTS[endpoint].columns}
    if name in known:
        return known[name]
    is_ours = name in {**PROVENANCE, **VERSIONS} and not name.startswith("_extra")
    return None if is_ours else Privacy.TEXT


@cache
def _vocabulary() -> dict[str, Privacy]:
    """Return the raw columns that reveal something, by names that mean the same in marts."""
    return {
        column.name: column.privacy
        for endpoint in ENDPOINTS.values()
        for column in endpoint.columns
        if column.privacy and column.privacy is not Privacy.PLACE
    }
