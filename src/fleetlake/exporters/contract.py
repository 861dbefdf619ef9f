"""The contract of an export target, and the values that it exchanges.

A target stores a mark with each table: the lake and snapshot that its rows come from. It changes
rows and mark atomically. So a stopped export has changed a table either completely or not at all,
and the next export starts from the mark that the target returns.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final, Protocol, Self

import pyarrow as pa

from fleetlake.errors import ExportFailed, LakeError
from fleetlake.machine.ownership import require_own
from fleetlake.settings import ExportMode

KINDS = ("BOOLEAN", "BIGINT", "DOUBLE", "DATE", "TIMESTAMP WITH TIME ZONE", "VARCHAR", "JSON")
"""The column types that every target supports; all others are cast to one of them."""

SYNCED_AT = "_fleetlake_synced_at"
"""The last column of each row at a target: when the export wrote the row."""


# How a target holds a list that the lake keeps as history:
HISTORY: Final = "history"  # each version, with valid_from and valid_to, as in the lake
SOFT_DELETE: Final = "soft_delete"  # the newest version; _deleted if it is no longer listed


@dataclass(frozen=True, kw_only=True)
class ExportMark:
    """The version of a table: its identity in the lake, the snapshot, its columns and key.

    `columns` maps names to one of `KINDS`; `key` is empty for a table without one. `about` and
    `meanings` describe the table and its columns. `mode` is that of a list kept as history.
    `parents` maps columns to the tables whose rows they name; their key is that one column.
    """

    table_uuid: str
    snapshot_id: int
    committed_at: str
    columns: Mapping[str, str]
    key: tuple[str, ...]
    about: str = ""
    meanings: Mapping[str, str] = field(default_factory=dict)
    mode: ExportMode | None = None
    parents: Mapping[str, str] = field(default_factory=dict)
    is_parent: bool = False

    def described(self, schema: pa.Schema, member: str) -> pa.Schema:
        """Return a schema with the meaning of each column as this member of its metadata."""
        for number, name in enumerate(schema.names):
            if meaning := self.meanings.get(name):
                column = schema.field(number).with_metadata({member: meaning})
                schema = schema.set(number, column)
        return schema

    def as_text(self) -> str:
        """Return the mark as JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> Self | None:
        """Return the mark in a JSON text, or None if another version of fleetlake wrote it."""
        try:
            members = json.loads(text)
            return cls(**{**members, "key": tuple(members["key"])})
        except (ValueError, TypeError, KeyError):
            return None


@dataclass(frozen=True, kw_only=True)
class TableChanges:
    """Changes from one mark to the next: remove the rows with `stale` keys, then add `rows`.

    An updated row is in both; `deleted` holds the stale keys without a new row. The `count` rows
    can be read only once, batch by batch.
    """

    stale: pa.Table
    deleted: pa.Table
    rows: pa.RecordBatchReader
    count: int


class Exporter(Protocol):
    """A target that is open for writing. Its methods raise the errors of its driver."""

    def mark(self, table: str) -> ExportMark | None:
        """Return the mark of the table's rows; None if there are none or the mark is unreadable."""

    def replace(self, table: str, rows: pa.RecordBatchReader, mark: ExportMark) -> None:
        """Replace the whole table with these rows and store the mark, atomically."""

    def change(self, table: str, changes: TableChanges, mark: ExportMark) -> None:
        """Apply the changes, add new columns and store the mark, atomically."""

    def purge(self, table: str) -> None:
        """Remove what the target keeps of rows that are no longer in the table, if it can."""

    def close(self) -> None:
        """Close the target."""


def foreign_table(table: str, *, elsewhere: str) -> ExportFailed:
    """Return the error for a table that no export created; `elsewhere` says what to change."""
    return ExportFailed(
        f"The target already has a table {table} that fleetlake did not create.",
        remedy=f"Rename it, or export to another {elsewhere}.",
    )


def reported(rows: pa.RecordBatchReader, on_rows: Callable[[int], None]) -> pa.RecordBatchReader:
    """Return the same rows; reading a batch calls `on_rows` with its size."""

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in rows:
            on_rows(batch.num_rows)
            yield batch

    return pa.RecordBatchReader.from_batches(rows.schema, batches())


def require_own_parts(root: Path | None, *parts: str) -> None:
    """Refuse a folder, or a part of it, that belongs to another user; None skips the check.

    Another user who can write to the folder could plant a file or a symbolic link there.
    Raises: ExportFailed, which names that user.
    """
    if root is None:
        return
    for path in (root, *(root / part for part in parts)):
        try:
            require_own(path, "export", otherwise="export to a folder of your own")
        except LakeError as error:
            raise ExportFailed(error.what, remedy=error.remedy) from None
