"""What changed in a table of the lake since a target's mark.

Only net changes of the lake's change feed count: builds and compactions delete thousands of rows
and write the same rows again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Self

import pyarrow as pa

from fleetlake.exporters.contract import KINDS, SOFT_DELETE, SYNCED_AT, ExportMark, TableChanges
from fleetlake.lake import Lake
from fleetlake.lake.ducklake import feed, table_uuid
from fleetlake.marts.catalogue import is_parent, parents_of
from fleetlake.settings import ExportMode
from fleetlake.text.quoting import quoted

BATCH_ROWS = 50_000
_WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "UTINYINT", "USMALLINT", "UINTEGER", "HUGEINT")
_DELETED = {"_deleted": "BOOLEAN", "_deleted_at": "TIMESTAMP WITH TIME ZONE"}
_ADDED = {
    SYNCED_AT: "When the export wrote this row, in UTC.",
    "_deleted": "Whether the service no longer lists it.",
    "_deleted_at": "When a load first found it missing from the list, in UTC.",
}


@dataclass(frozen=True, kw_only=True)
class Source:
    """A table of the lake to export; `key` names the columns that identify a row.

    `derived` has further columns, as the SQL of a text. `about` and `meanings` describe the table
    and its columns. `mode` is that of a list kept as history, and None for other tables.
    """

    schema: str
    table: str
    key: tuple[str, ...]
    derived: Mapping[str, str] = field(default_factory=dict)
    about: str = ""
    meanings: Mapping[str, str] = field(default_factory=dict)
    mode: ExportMode | None = None

    def in_mode(self, mode: ExportMode | None) -> Self:
        """Return the source in a mode; the same one if it has none, or if `mode` is None.

        With soft deletes there is one row per record, whose key has no `valid_from`.
        """
        if not self.mode or not mode or mode == self.mode:
            return self
        key = self.key[:-1] if mode == SOFT_DELETE else (*self.key, "valid_from")
        return replace(self, mode=mode, key=key)

    def at(self, snapshot: int) -> str:
        """Return the SQL of the rows at a snapshot of the lake.

        If two accounts list a record, the one that still lists it takes precedence.
        """
        table = f"{self.schema}.{quoted(self.table)} AT (VERSION => {snapshot})"
        if self.mode != SOFT_DELETE:
            return table
        return (
            f"(SELECT *, valid_to IS NOT NULL AS _deleted, valid_to AS _deleted_at FROM {table} "
            f"QUALIFY row_number() OVER (PARTITION BY {', '.join(map(quoted, self.key))} ORDER BY "
            "valid_to DESC NULLS FIRST, valid_from DESC, _loaded_at DESC, account_profile) = 1)"
        )

    @property
    def name(self) -> str:
        """Return the table's name at a target. Marts have no prefix, other schemas do."""
        return self.table if self.schema == "marts" else f"{self.schema}_{self.table}"


_NOW = f"now() AS {SYNCED_AT}"
"""The time at which the long read began: the same for all rows of an export."""


def mark_of(lake: Lake, source: Source) -> ExportMark:
    """Return the mark of a table's current version in the lake."""
    [(snapshot, at)] = lake.rows(
        "SELECT snapshot_id, snapshot_time::VARCHAR FROM lake.snapshots() "
        "ORDER BY snapshot_id DESC LIMIT 1"
    )
    described = lake.rows(
        f"SELECT column_name, column_type FROM (DESCRIBE {source.schema}.{quoted(source.table)})"
    )
    columns = {name: _portable(kind) for name, kind in described}
    if source.mode == SOFT_DELETE:
        del columns["valid_to"]
        columns |= _DELETED
    columns |= {**dict.fromkeys(source.derived, "VARCHAR"), SYNCED_AT: "TIMESTAMP WITH TIME ZONE"}
    meanings = {**source.meanings, **_ADDED}
    return ExportMark(
        table_uuid=table_uuid(lake, source.schema, source.table),
        snapshot_id=snapshot,
        committed_at=at,
        columns=columns,
        key=source.key,
        about=source.about,
        meanings={name: meanings[name] for name in columns if name in meanings},
        mode=source.mode,
        parents=parents_of(source.schema, source.table, columns),
        is_parent=source.mode == SOFT_DELETE or is_parent(source.schema, source.table),
    )


def full_export_reason(lake: Lake, old: ExportMark | None, new: ExportMark) -> str | None:
    """Return why the table must be exported in full, or None if its changes are enough."""
    if old is None:
        return "the target does not hold it yet"
    if old.table_uuid != new.table_uuid:
        return "it was created again, or belongs to another lake"
    if SYNCED_AT not in old.columns:
        return f"its rows have no {SYNCED_AT} yet"
    if old.key != new.key or not old.columns.items() <= new.columns.items():
        return "its columns or key changed"
    known = lake.rows(
        "SELECT snapshot_time::VARCHAR FROM lake.snapshots() WHERE snapshot_id = ?",
        [old.snapshot_id],
    )
    if known != [(old.committed_at,)]:
        return "the lake no longer has the snapshot of the last export"
    return None


def all_rows(lake: Lake, source: Source, mark: ExportMark) -> pa.RecordBatchReader:
    """Return all rows of the table at a mark."""
    return lake.execute(
        f"SELECT {_selected(source, mark)}, {_NOW} FROM {source.at(mark.snapshot_id)}"
    ).to_arrow_reader(BATCH_ROWS)


def changes_since(lake: Lake, source: Source, old: ExportMark, new: ExportMark) -> TableChanges:
    """Return the changes from the rows of one mark to those of another, in a long read."""
    lake.execute(f"CREATE OR REPLACE TEMP TABLE feed AS {_feed(source, old, new)}")
    inserted = "SELECT * EXCLUDE is_arrival FROM feed WHERE is_arrival"
    removed = "SELECT * EXCLUDE is_arrival FROM feed WHERE NOT is_arrival"
    lake.execute(f"CREATE OR REPLACE TEMP TABLE arrived AS {inserted} EXCEPT ALL {removed}")
    lake.execute(f"CREATE OR REPLACE TEMP TABLE departed AS {removed} EXCEPT ALL {inserted}")
    key = ", ".join(map(quoted, new.key)) or "*"
    stale = f"SELECT DISTINCT {key} FROM departed"
    [(count,)] = lake.rows("SELECT count(*) FROM arrived")
    return TableChanges(
        stale=lake.execute(stale).to_arrow_table(),
        deleted=lake.execute(f"{stale} EXCEPT SELECT {key} FROM arrived").to_arrow_table(),
        rows=lake.execute(f"SELECT *, {_NOW} FROM arrived").to_arrow_reader(BATCH_ROWS),
        count=count,
    )


def _feed(source: Source, old: ExportMark, new: ExportMark) -> str:
    """Return the SQL of all rows that were written and removed between two marks.

    For soft deletes, these are the rows at the two marks: a new version also replaces one.
    """
    window = old.snapshot_id + 1, new.snapshot_id
    parts = list(feed(source.schema, source.table, *window))
    if source.mode == SOFT_DELETE:
        parts = [(source.at(new.snapshot_id), True), (source.at(old.snapshot_id), False)]
    return " UNION ALL ".join(
        f"SELECT {_selected(source, new)}, {is_arrival} AS is_arrival FROM {rows}"
        for rows, is_arrival in parts
    )


def _selected(source: Source, mark: ExportMark) -> str:
    return ", ".join(
        f"({source.derived.get(name, quoted(name))})::{kind} AS {quoted(name)}"
        for name, kind in mark.columns.items()
        if name != SYNCED_AT
    )


def _portable(kind: str) -> str:
    """Return the type that a column has at every target; sums of integers stay integers.

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
