"""What an export target must do, and the words it is told in.

A target keeps a mark beside each table: which snapshot of which lake its rows are. It changes
rows and mark together, so an export that was stopped has either happened or not, and the next
one starts from what the target itself says it holds.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Protocol, Self

import pyarrow as pa

from fleetlake.errors import ExportFailed

KINDS = ("BOOLEAN", "BIGINT", "DOUBLE", "DATE", "TIMESTAMP WITH TIME ZONE", "VARCHAR", "JSON")
"""The column types that every target knows; all other ones are cast to one of them."""


@dataclass(frozen=True, kw_only=True)
class Mark:
    """The moment of a table: its identity in the lake, the snapshot, and the shape of its rows.

    `columns` maps names to one of `KINDS`; `key` is empty for a table without one.
    """

    table_uuid: str
    snapshot_id: int
    committed_at: str
    columns: Mapping[str, str]
    key: tuple[str, ...]

    def as_text(self) -> str:
        """Return the mark as JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> Self | None:
        """Return the mark of a JSON text, or None where another version of us wrote it."""
        try:
            members = json.loads(text)
            return cls(**{**members, "key": tuple(members["key"])})
        except (ValueError, TypeError, KeyError):
            return None


@dataclass(frozen=True, kw_only=True)
class Changes:
    """From one mark to the next: remove the rows with `stale` keys, then add `rows`.

    A row that was updated is in both; `gone` holds the stale keys that do not come back. The
    rows can be read once, batch by batch.
    """

    stale: pa.Table
    gone: pa.Table
    rows: pa.RecordBatchReader
    count: int

    def told(self, on_rows: Callable[[int], None]) -> "Changes":
        """Return the same changes, telling of their rows as they are taken."""
        return replace(self, rows=counted(self.rows, on_rows))


class Exporter(Protocol):
    """A target that is open for writing. Its methods raise whatever its driver raises."""

    def mark(self, table: str) -> Mark | None:
        """Return what the target holds of a table, or None if that is nothing or unknown."""

    def replace(self, table: str, rows: pa.RecordBatchReader, mark: Mark) -> None:
        """Make these rows the whole table, and note the mark, in one step."""

    def change(self, table: str, changes: Changes, mark: Mark) -> None:
        """Apply the changes, add the columns that are new, and note the mark, in one step."""

    def close(self) -> None:
        """Let go of the target."""


def in_the_way(table: str, *, elsewhere: str) -> ExportFailed:
    """Return the error for a table at the target that no export made; `elsewhere` is a place."""
    return ExportFailed(
        f"The table {table} at the target is in the way: fleetlake did not make it.",
        remedy=f"Rename it, or export to another {elsewhere}.",
    )


def counted(rows: pa.RecordBatchReader, on_rows: Callable[[int], None]) -> pa.RecordBatchReader:
    """Return the same rows, telling how many there are in each batch as it is taken."""

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in rows:
            on_rows(batch.num_rows)
            yield batch

    return pa.RecordBatchReader.from_batches(rows.schema, batches())
