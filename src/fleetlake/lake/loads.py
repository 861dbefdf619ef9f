"""The content of one commit, and what it changed in the lake."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Self
from uuid import uuid4

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fleetlake.decoding.records import RejectedRecord
from fleetlake.endpoints.model import Endpoint
from fleetlake.lake.watermarks import HeldList, LastRead
from fleetlake.planning.coverage import TOLERANCE, Overlap, before
from fleetlake.planning.intervals import Interval

ROWS_PER_PACK = 5_000
"""Rows that are compressed together; a shorter list is not compressed."""

ROWS_PER_PART = 25_000
"""Rows that are unpacked together. DuckDB needs up to 2 KB of memory for each."""


class RowParts:
    """Rows in their order, added batch by batch and read again in parts.

    They are compressed while a list is being read. Only the whole list shows which records are
    gone, so it is committed at once. Of 100,000 routers, the lists of one ingest would take 500 MB;
    compressed, they take a sixth of that. `RowParts.of` takes a table as it is, as one part.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.num_rows = 0
        self._packs: list[pa.Buffer] = []
        self._loose: list[pa.RecordBatch] = []
        self._loose_rows = 0

    @classmethod
    def of(cls, table: pa.Table) -> Self:
        """Return the rows of a table, which is neither compressed nor divided."""
        rows = cls(table.schema)
        rows.num_rows, rows._loose = table.num_rows, table.to_batches()
        return rows

    def add(self, rows: pa.RecordBatch) -> None:
        """Add rows of the schema."""
        self.num_rows += rows.num_rows
        self._loose.append(rows)
        self._loose_rows += rows.num_rows
        if self._loose_rows >= ROWS_PER_PACK:
            self._packs.append(_packed(pa.Table.from_batches(self._loose, self.schema)))
            self._loose, self._loose_rows = [], 0

    def parts(self) -> Iterator[pa.Table]:
        """Yield all rows, about `ROWS_PER_PART` at once; one empty table if there are none."""
        tables: list[pa.Table] = []
        for pack in self._packs:
            if not tables:
                _return_memory()
            tables.append(pa.ipc.open_stream(pack).read_all())
            if sum(table.num_rows for table in tables) >= ROWS_PER_PART:
                part, tables = pa.concat_tables(tables), []
                yield part
                del part
        if self._loose or not self._packs:
            tables.append(pa.Table.from_batches(self._loose, self.schema))
        if tables:
            yield pa.concat_tables(tables)

    def table(self) -> pa.Table:
        """Return all rows at once."""
        return pa.concat_tables(self.parts())

    def changed(self, change: Callable[[pa.Table], pa.Table]) -> "RowParts":
        """Return the rows with each part changed, compressed if these are."""
        if not self._packs:
            return RowParts.of(change(self.table()))
        changed = RowParts(self.schema)
        for part in self.parts():
            for batch in change(part).to_batches():
                changed.add(batch)
        return changed

    def columns(self, names: Sequence[str]) -> pa.Table:
        """Return some columns of all rows; the others stay packed."""
        places = [self.schema.get_field_index(name) for name in names]
        options = pa.ipc.IpcReadOptions(included_fields=places)
        tables = [pa.ipc.open_stream(pack, options=options).read_all() for pack in self._packs]
        loose = pa.Table.from_batches(self._loose, self.schema).select(names)
        return pa.concat_tables([*(table.select(names) for table in tables), loose])


def _return_memory() -> None:
    """Return freed memory to the system.

    The C library keeps it in pieces between what is still used, and DuckDB's allocator cannot take
    it from there. At 100,000 routers, an ingest of lists and events held 120 MB of it.
    """
    pa.default_memory_pool().release_unused()


def _packed(rows: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, rows.schema, options=options) as stream:
        stream.write_table(rows.combine_chunks())
    return sink.getvalue()


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Rows of one stream that are committed together, and the records that were rejected.

    `seen_at` is the service's clock at the read; versions of a snapshot begin and end then.
    """

    endpoint: Endpoint
    profile: str
    rows: RowParts
    seen_at: datetime
    rejects: Sequence[RejectedRecord] = ()

    @property
    def records(self) -> int:
        """The number of records that were read, with the rejected ones."""
        return self.rows.num_rows + len(self.rejects)

    @property
    def newest(self) -> datetime | None:
        """The newest event time among the rows; for a snapshot, when it was read."""
        name = self.endpoint.event_time
        if name is None:
            return self.seen_at
        if not self.rows.num_rows:
            return None
        _, newest = bounds_of(self.rows.columns([name]).column(0))
        # A record may carry a future time, but nothing was read up to then.
        return newest if newest <= self.seen_at + TOLERANCE else self.seen_at


@dataclass(frozen=True, kw_only=True)
class Proof:
    """What a load proves about its stream.

    `proven` are ranges by partition. `overlap` is what the previous load has already read. `ends`
    is given with the last commit of a finished read: it is what the next load needs to know about
    it. `newest` is the newest event time that was read, and `service_time` the newest time that the
    service itself put on a record, if any. `held` is the list that was read, if it is one.
    """

    proven: Mapping[str, Sequence[Interval]] = field(default_factory=dict)
    overlap: Overlap | None = None
    ends: LastRead | None = None
    newest: datetime | None = None
    service_time: datetime | None = None
    held: HeldList | None = None

    def before(self, instant: datetime) -> Self:
        """Return what is proven before an instant, including the end of the read."""
        settled = {partition: before(instant, proven) for partition, proven in self.proven.items()}
        ends = self.ends.proven_until(instant) if self.ends else None
        return replace(self, proven=settled, ends=ends)


@dataclass(frozen=True)
class StreamProof:
    """What a load proves about a stream, without its rows.

    `load_id` is that of the load, if it had new rows.
    """

    endpoint: Endpoint
    profile: str
    proof: Proof
    load_id: str | None = None


@dataclass
class Attempt:
    """The id of a load, which stays the same when it is tried again, and how often it was begun."""

    run_id: str
    load_id: str = field(default_factory=lambda: str(uuid4()))
    begun: int = 0


@dataclass(frozen=True, kw_only=True)
class ShrinkRule:
    """The share of its records that a list may lose before the loss needs confirmation.

    More than `limit_pct` percent is too much, unless a person has accepted the loss
    (`is_accepted`).
    """

    limit_pct: int = 50
    is_accepted: bool = False


@dataclass(frozen=True, kw_only=True)
class Whole:
    """That a batch is the complete list, so any other record is gone.

    For a fan-out, `asked` holds the ids of each walk. `digest` stands for what was read. With
    `may_ask_again`, nothing is committed if the list has lost too many records, as limited by
    `shrink`, so that it can be read again.
    """

    asked: Sequence[Sequence[int | str]] | None = None
    digest: str | None = None
    may_ask_again: bool = False
    shrink: ShrinkRule = ShrinkRule()


@dataclass(frozen=True)
class Committed:
    """What a commit changed, in rows.

    `unconfirmed` records are missing from a list that has shrunk too much; their versions stay
    open. The lake has `held` current records of that list. `is_noted` means that something other
    than new or changed rows was written. With `asks_again`, nothing was committed, because
    the list has lost so many records that it must be read a second time. `snapshot` is the one that
    holds what was committed, if no other process can have changed it since.
    """

    added: int
    changed: int
    quarantined: int
    unconfirmed: int = 0
    held: int = 0
    is_noted: bool = False
    asks_again: bool = False
    snapshot: int | None = field(default=None, compare=False)

    def plus(self, later: Self) -> Self:
        """Return the sum of both; `unconfirmed` and `held` come from the later one."""
        return replace(
            later,
            added=self.added + later.added,
            changed=self.changed + later.changed,
            quarantined=self.quarantined + later.quarantined,
        )

    @property
    def is_nothing(self) -> bool:
        """True if the lake's rows are unchanged."""
        return not (self.added or self.changed or self.quarantined or self.is_noted)


def bounds_of(instants: pa.ChunkedArray) -> tuple[datetime, datetime]:
    """Return the first and the last instant; pyarrow.compute would take 0.1 s to import."""
    ticks = ticks_of(instants)
    return instant_of(ticks.min()), instant_of(ticks.max())


def ticks_of(instants: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    """Return instants as microseconds since 1970."""
    chunks = [chunk.view(pa.int64()).to_numpy() for chunk in instants.chunks]
    return np.concatenate(chunks) if chunks else np.empty(0, np.int64)


def ticks_at(instant: datetime) -> int:
    """Return an instant as microseconds since 1970."""
    return (instant - _EPOCH) // timedelta(microseconds=1)


def instant_of(ticks: int | np.int64) -> datetime:
    """Return the instant of microseconds since 1970, UTC."""
    return _EPOCH + timedelta(microseconds=int(ticks))
