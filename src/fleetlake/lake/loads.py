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
from fleetlake.lake.packed_rows import PackedRows
from fleetlake.lake.watermarks import LastRead
from fleetlake.planning.coverage import Overlap, before
from fleetlake.planning.intervals import Interval

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
