"""What one commit brings to the lake, and what it changed there."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Self
from uuid import uuid4

import pyarrow as pa

from fleetlake.decoding.records import Misfit
from fleetlake.endpoints.model import Endpoint
from fleetlake.lake.watermarks import LastRead
from fleetlake.planning.coverage import Overlap, before
from fleetlake.planning.intervals import Interval

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def new_load_id() -> str:
    """Return an id that no other load has."""
    return str(uuid4())


@dataclass(frozen=True, kw_only=True)
class ShrinkRule:
    """When a list read whole has lost too much to be believed.

    More than `limit_pct` percent of its records gone is too much, unless a person has said that
    it `is_accepted`.
    """

    limit_pct: int = 50
    is_accepted: bool = False


HALF = ShrinkRule()


@dataclass(frozen=True, kw_only=True)
class Load:
    """What one commit brings: rows of one stream, and what they prove.

    `seen_at` is the service's clock at the read; a snapshot's versions begin and end there.
    `is_whole` says that the rows are the whole list, so what is not among them has gone.
    Of a fan-out, `asked` holds the ids of each walk. `may_ask_again` has the commit refused where
    the list has lost much and was read only once; `shrink` says how much that is.
    `overlap` is what the load before has read already; `ends`, on the last commit of a read that
    came to its end, is what the next load is to know of it.
    """

    endpoint: Endpoint
    profile: str
    run_id: str
    rows: pa.Table
    seen_at: datetime
    misfits: Sequence[Misfit] = ()
    proven: Mapping[str, Sequence[Interval]] = field(default_factory=dict)
    is_whole: bool = False
    asked: Sequence[tuple[int, ...]] | None = None
    may_ask_again: bool = False
    shrink: ShrinkRule = HALF
    overlap: Overlap | None = None
    ends: LastRead | None = None
    load_id: str = field(default_factory=new_load_id)

    def split_at(self, instant: datetime) -> tuple["Load", "Load | None"]:
        """Return the load with what it proves before an instant, and the proof left, if any.

        What is left brings no row. The end of the read is part of it, for it says how far the
        stream is proven.
        """
        ends = self.ends.proven_until(instant) if self.ends else None
        sure = {partition: before(instant, proven) for partition, proven in self.proven.items()}
        if sure == self.proven and ends == self.ends:
            return self, None
        left = replace(self, rows=self.rows.schema.empty_table(), misfits=(), is_whole=False)
        return replace(self, proven=sure, ends=None), left

    def proven_before(self, instant: datetime) -> "Load":
        """Return the load with what it proves before an instant, its end included."""
        sure = {partition: before(instant, proven) for partition, proven in self.proven.items()}
        ends = self.ends.proven_until(instant) if self.ends else None
        return replace(self, proven=sure, ends=ends)

    @property
    def newest(self) -> datetime | None:
        """The newest event time among the rows; of a snapshot, when it was read."""
        if self.endpoint.event_time is None:
            return self.seen_at
        return bounds_of(self.rows[self.endpoint.event_time])[1] if self.rows.num_rows else None


@dataclass(frozen=True)
class Committed:
    """What a commit changed, in rows.

    `withheld` records are gone from a list that has shrunk too much, `of` so many that the lake
    holds as current; their versions stay open. `is_noted` says that something was written that
    is no new row and no changed one.
    """

    added: int
    changed: int
    quarantined: int
    withheld: int = 0
    of: int = 0
    is_noted: bool = False

    def plus(self, later: Self) -> Self:
        """Return what both changed; a list's shrinking is as the later one found it."""
        return replace(
            later,
            added=self.added + later.added,
            changed=self.changed + later.changed,
            quarantined=self.quarantined + later.quarantined,
        )

    @property
    def is_nothing(self) -> bool:
        """True when the lake's rows are what they were."""
        return not (self.added or self.changed or self.quarantined or self.is_noted)


def bounds_of(instants: pa.ChunkedArray) -> tuple[datetime, datetime]:
    """Return the first and the last instant; pyarrow.compute would take 0.1 s to import."""
    chunks = [chunk.view(pa.int64()).to_numpy() for chunk in instants.chunks if len(chunk)]
    first = min(int(chunk.min()) for chunk in chunks)
    last = max(int(chunk.max()) for chunk in chunks)
    return _EPOCH + timedelta(microseconds=first), _EPOCH + timedelta(microseconds=last)
