"""The content of one commit, and what it changed in the lake."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Self
from uuid import uuid4

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fleetlake.decoding.records import RejectedRecord
from fleetlake.endpoints.model import Endpoint
from fleetlake.lake.watermarks import LastRead
from fleetlake.planning.coverage import Overlap, before
from fleetlake.planning.intervals import Interval

ROWS_PER_PACK = 5_000
"""Rows that are compressed together; a shorter list is not compressed."""

ROWS_PER_PART = 25_000
"""Rows that are unpacked together. DuckDB needs up to 2 KB of memory for each."""


class PackedRows:
    """Rows in their order, added batch by batch and read again in parts.

    They are compressed while a list is being read. Only the whole list shows which records are
    gone, so it is committed at once. Of 100,000 routers, the lists of one ingest would take 500 MB;
    compressed, they take a sixth of that.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.num_rows = 0
        self._packs: list[pa.Buffer] = []
        self._loose: list[pa.RecordBatch] = []
        self._loose_rows = 0

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


def new_load_id() -> str:
    """Return a new unique load id."""
    return str(uuid4())


@dataclass(frozen=True, kw_only=True)
class ShrinkRule:
    """The share of its records that a list may lose before the loss needs confirmation.

    More than `limit_pct` percent is too much, unless a person has accepted the loss
    (`is_accepted`).
    """

    limit_pct: int = 50
    is_accepted: bool = False


HALF = ShrinkRule()


@dataclass
class Attempts:
    """How often the commit of a load was begun; shared by all copies of the load."""

    begun: int = 0


@dataclass(frozen=True, kw_only=True)
class Load:
    """The content of one commit: rows of one stream, and what they prove.

    `seen_at` is the service's clock at the read; versions of a snapshot begin and end then.
    `is_whole` means that the rows are the complete list, so any other record is gone. For a
    fan-out, `asked` holds the ids of each walk. With `may_ask_again`, the commit is refused if the
    list has lost too many records, as limited by `shrink`, so that it can be read again. `overlap`
    is what the previous load has already read. The rows of a list kept as history are in `packed`,
    and `rows` is empty. `newest_read` is set once the rows were dropped. `ends` is set on the last
    commit of a finished read: it is what the next load needs to know about it. `load_id` and
    `attempts` belong together.
    """

    endpoint: Endpoint
    profile: str
    run_id: str
    rows: pa.Table
    seen_at: datetime
    rejects: Sequence[RejectedRecord] = ()
    proven: Mapping[str, Sequence[Interval]] = field(default_factory=dict)
    is_whole: bool = False
    asked: Sequence[tuple[int | str, ...]] | None = None
    may_ask_again: bool = False
    shrink: ShrinkRule = HALF
    overlap: Overlap | None = None
    ends: LastRead | None = None
    packed: PackedRows | None = None
    newest_read: datetime | None = None
    load_id: str = field(default_factory=new_load_id)
    attempts: Attempts = field(default_factory=Attempts)

    def split_at(self, instant: datetime) -> tuple["Load", "Load | None"]:
        """Return the load with its proofs before an instant, and a load with the rest, if any.

        The second load has no rows. It gets the end of the read, because that says how far the
        stream is proven.
        """
        ends = self.ends.proven_until(instant) if self.ends else None
        settled = {partition: before(instant, proven) for partition, proven in self.proven.items()}
        if settled == self.proven and ends == self.ends:
            return self, None
        return replace(self, proven=settled, ends=None), self._without_rows()

    def waiting(self) -> "Load":
        """Return the load without its rows, which the lake already has, until its proofs count."""
        return replace(self._without_rows(), newest_read=self.newest)

    def _without_rows(self) -> "Load":
        empty = self.rows.schema.empty_table()
        return replace(self, rows=empty, packed=None, rejects=(), is_whole=False)

    def proven_before(self, instant: datetime) -> "Load":
        """Return the load with its proofs before an instant, including the end of the read."""
        settled = {partition: before(instant, proven) for partition, proven in self.proven.items()}
        ends = self.ends.proven_until(instant) if self.ends else None
        return replace(self, proven=settled, ends=ends)

    @property
    def records(self) -> int:
        """The number of records that were read, with the rejected ones."""
        rows: int = self.rows.num_rows
        return rows + (self.packed.num_rows if self.packed else 0) + len(self.rejects)

    def parts(self) -> Iterator[pa.Table]:
        """Yield the rows, few enough at once for DuckDB to join."""
        if self.packed is None:
            yield self.rows
        else:
            yield from self.packed.parts()

    def keys(self) -> pa.Table:
        """Return the key columns of all rows."""
        key = self.endpoint.key
        return self.rows.select(key) if self.packed is None else self.packed.columns(key)

    @property
    def newest(self) -> datetime | None:
        """The newest event time among the rows; for a snapshot, when it was read."""
        if self.endpoint.event_time is None:
            return self.seen_at
        if self.newest_read is not None:
            return self.newest_read
        return bounds_of(self.rows[self.endpoint.event_time])[1] if self.rows.num_rows else None


@dataclass(frozen=True)
class Committed:
    """What a commit changed, in rows.

    `unconfirmed` records are missing from a list that has shrunk too much; their versions stay
    open. The lake has `held` current records of that list. `is_noted` means that something other
    than new or changed rows was written.
    """

    added: int
    changed: int
    quarantined: int
    unconfirmed: int = 0
    held: int = 0
    is_noted: bool = False

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
