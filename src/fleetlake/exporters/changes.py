"""What has become of a table of the lake since a target's mark.

The lake's change feed is taken net: a row that was removed and put back as it was, as marts
and compactions do by the thousand, has not changed.
"""

from dataclasses import dataclass

import pyarrow as pa

from fleetlake.exporters.contract import KINDS, Changes, Mark
from fleetlake.lake import Lake
from fleetlake.text.quoting import literal, quoted

BATCH_ROWS = 50_000
_WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "UTINYINT", "USMALLINT", "UINTEGER", "HUGEINT")


@dataclass(frozen=True, kw_only=True)
class Source:
    """A table of the lake to export; `key` names the columns that tell its rows apart."""

    schema: str
    table: str
    key: tuple[str, ...]

    @property
    def name(self) -> str:
        """Return the table's name at a target: marts are what people look for there."""
        return self.table if self.schema == "marts" else f"{self.schema}_{self.table}"


def mark_of(lake: Lake, source: Source) -> Mark:
    """Return the mark of a table as the lake has it now."""
    [(snapshot, at)] = lake.rows(
        "SELECT snapshot_id, snapshot_time::VARCHAR FROM lake.snapshots() "
        "ORDER BY snapshot_id DESC LIMIT 1"
    )
    [(uuid,)] = lake.rows(
        "SELECT t.table_uuid::VARCHAR FROM __ducklake_metadata_lake.ducklake_table t "
        "JOIN __ducklake_metadata_lake.ducklake_schema s USING (schema_id) "
        "WHERE t.end_snapshot IS NULL AND s.schema_name = ? AND t.table_name = ?",
        [source.schema, source.table],
    )
    described = lake.rows(
        f"SELECT column_name, column_type FROM (DESCRIBE {source.schema}.{quoted(source.table)})"
    )
    return Mark(
        table_uuid=uuid,
        snapshot_id=snapshot,
        committed_at=at,
        columns={name: _portable(kind) for name, kind in described},
        key=source.key,
    )


def why_whole(lake: Lake, then: Mark | None, now: Mark) -> str | None:
    """Return why the table must be sent whole, or None where its changes will do."""
    if then is None:
        return "the target does not hold it yet"
    if then.table_uuid != now.table_uuid:
        return "it was made anew, or is of another lake"
    if then.key != now.key or not then.columns.items() <= now.columns.items():
        return "its columns are others"
    known = lake.rows(
        "SELECT snapshot_time::VARCHAR FROM lake.snapshots() WHERE snapshot_id = ?",
        [then.snapshot_id],
    )
    if known != [(then.committed_at,)]:
        return "the lake has forgotten what it was at the last export"
    return None


def all_rows(lake: Lake, source: Source, now: Mark) -> pa.RecordBatchReader:
    """Return the table's rows."""
    return lake.execute(
        f"SELECT {_selected(now)} FROM {source.schema}.{quoted(source.table)} "
        f"AT (VERSION => {now.snapshot_id})"
    ).to_arrow_reader(BATCH_ROWS)


def changes_since(lake: Lake, source: Source, then: Mark, now: Mark) -> Changes:
    """Return what is to be done to rows of the mark `then` to make them those of `now`."""
    lake.execute(f"CREATE OR REPLACE TEMP TABLE feed AS {_feed(source, then, now)}")
    came = "SELECT * EXCLUDE is_arrival FROM feed WHERE is_arrival"
    went = "SELECT * EXCLUDE is_arrival FROM feed WHERE NOT is_arrival"
    lake.execute(f"CREATE OR REPLACE TEMP TABLE arrived AS {came} EXCEPT ALL {went}")
    lake.execute(f"CREATE OR REPLACE TEMP TABLE departed AS {went} EXCEPT ALL {came}")
    key = ", ".join(map(quoted, now.key)) or "*"
    stale = f"SELECT DISTINCT {key} FROM departed"
    [(count,)] = lake.rows("SELECT count(*) FROM arrived")
    return Changes(
        stale=lake.execute(stale).to_arrow_table(),
        gone=lake.execute(f"{stale} EXCEPT SELECT {key} FROM arrived").to_arrow_table(),
        rows=lake.execute("FROM arrived").to_arrow_reader(BATCH_ROWS),
        count=count,
    )


def _feed(source: Source, then: Mark, now: Mark) -> str:
    return (
        f"SELECT {_selected(now)}, change_type IN ('insert', 'update_postimage') AS is_arrival "
        f"FROM ducklake_table_changes('lake', {literal(source.schema)}, {literal(source.table)}, "
        f"{then.snapshot_id + 1}, {now.snapshot_id})"
    )


def _selected(mark: Mark) -> str:
    return ", ".join(
        f"{quoted(name)}::{kind} AS {quoted(name)}" for name, kind in mark.columns.items()
    )


def _portable(kind: str) -> str:
    """Return the type that a column has at every target; sums of whole numbers stay whole.

    >>> _portable("HUGEINT"), _portable("DECIMAL(18,3)"), _portable("BIGINT[]")
    ('BIGINT', 'DOUBLE', 'JSON')
    """
    if kind in KINDS:
        return kind
    if kind in _WHOLE:
        return "BIGINT"
    if kind == "FLOAT" or kind.startswith("DECIMAL"):
        return "DOUBLE"
    return "JSON" if kind.endswith(("[]", ")")) else "VARCHAR"
