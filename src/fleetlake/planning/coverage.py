"""What of a stream is still to be read, and what a read may call proven. Pure.

A record may become visible some time after the instant it carries. So reads stop one settle
time before now, and a range counts as proven only once it is older than the lookback too: what
is younger is read again by the next load, whatever became of this one.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from fleetlake.planning.intervals import BEGINNING, Interval, coalesce, subtract

SETTLE = timedelta(seconds=60)
"""Records younger than this may not all be visible yet, so reads stop short of them."""

LOOKBACK = timedelta(minutes=10)
"""How much later than that a record may still show up and be caught, at least."""

SWEEP = timedelta(hours=24)
"""How often a load asks every id and reads again all since the sweep before.

What the usual lookback missed is found then, and makes the lookback longer.
"""

SWEEP_LOOKBACK = timedelta(hours=6)
"""How far before the last sweep the next one begins: what comes later than that is lost to it."""


def still_to_read(
    proven: Iterable[Interval],
    *,
    now: datetime,
    since: datetime | None = None,
    again_from: datetime | None = None,
    only: Interval | None = None,
) -> list[Interval]:
    """Return the ranges to read, oldest first.

    `now` is the service's clock. `since` bounds how far back holes are filled; without it they
    are filled as far as the service holds. Nothing from `again_from` on counts as proven.
    `only` leaves out what lies outside of it.
    """
    start, end = since or BEGINNING, now - SETTLE
    if only is not None:
        start, end = max(start, only.start), min(end, only.end)
    if start >= end:
        return []
    done = proven if again_from is None else before(again_from, proven)
    return subtract(Interval(start, end), done)


def sweep_from(
    swept_at: datetime, proven: Iterable[Sequence[Interval]], *, now: datetime
) -> datetime | None:
    """Return from where on the load at `now` reads all again, or None while no sweep is due.

    `proven` is what the ids, or the stream, are read of. Where that is newer than the last
    sweep by more than a day, loads of other shards have swept what lies between.
    """
    if now - swept_at < SWEEP:
        return None
    newest = max((_end(interval) for ranges in proven for interval in ranges), default=swept_at)
    return max(swept_at, newest - SWEEP) - SWEEP_LOOKBACK


@dataclass(frozen=True)
class Overlap:
    """What a load reads that the one before it had read already.

    `unsettled` is what that one left to be read again; `starts` is by partition from where on
    it is, which for a sweep lies further back.
    """

    unsettled: Interval
    starts: Mapping[str, datetime]


def overlap(
    proven: Mapping[str, Sequence[Interval]], unsettled: Interval, *, swept_from: datetime | None
) -> Overlap:
    """Return what a load reads again; `unsettled` is what the last one left to it.

    A partition that the last load did not ask, or did not finish, is not in it.
    """
    last = [(partition, max(ranges, key=_end)) for partition, ranges in proven.items() if ranges]
    starts = {
        partition: max(interval.start, swept_from) if swept_from else interval.end
        for partition, interval in last
        if interval.end == unsettled.start
    }
    return Overlap(unsettled, starts)


LIST_LIFE = timedelta(hours=1)
"""How old a bulk list may be that another load read, to spare a shard the ids that did not move.

What happened since the list was read waits for the next one, and nothing is claimed of it.
"""


def needs_asking(proven: Sequence[Interval], *, moved_at: datetime | None) -> bool:
    """Return whether an id of a fan-out may have anything new.

    `moved_at` is when the bulk list last saw it move, None where the list does not know it. An
    id that is not asked stays proven only as far as it was, so nothing is claimed of it.
    """
    covered = max((interval.end for interval in proven), default=None)
    if covered is None or moved_at is None or len(coalesce(proven)) > 1:
        return True
    return moved_at >= covered


def expired_ranges(
    proven: Iterable[Interval], *, now: datetime, retention: timedelta
) -> list[Interval]:
    """Return the ranges that the service forgot before they were read, oldest first.

    What lies before the first proven instant was never promised to anyone: it is no gap.
    """
    proven = list(proven)
    horizon = now - retention
    start = min((interval.start for interval in proven), default=horizon)
    return subtract(Interval(start, horizon), proven) if start < horizon else []


def lookback_for(lateness: timedelta | None) -> timedelta:
    """Return how far a load looks back for records that were late by up to `lateness`.

    >>> lookback_for(timedelta(minutes=31))
    datetime.timedelta(seconds=1800)
    """
    wanted = lateness - SETTLE if lateness else LOOKBACK
    return min(max(wanted, LOOKBACK), SWEEP)


def unsettled(now: datetime, lateness: timedelta | None) -> Interval:
    """Return the end of what is read at `now`: what the next load reads again.

    All before it stays as it is, for what is known of how late records show up.
    """
    return Interval(now - SETTLE - lookback_for(lateness), now - SETTLE)


def _end(interval: Interval) -> datetime:
    return interval.end


def before(instant: datetime, intervals: Iterable[Interval]) -> list[Interval]:
    """Return the parts of ranges that lie before an instant."""
    return [Interval(i.start, min(i.end, instant)) for i in intervals if i.start < instant]
