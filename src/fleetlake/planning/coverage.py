"""Which ranges of a stream are still to be read, and which count as proven. Pure.

A record may become visible some time after its event time. So reads stop one settle time before
now, and a range counts as proven only when it is also older than the lookback. The next load reads
younger ranges again, whether or not this load succeeded.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from fleetlake.planning.intervals import BEGINNING, Interval, subtract

SETTLE = timedelta(seconds=60)
"""Records younger than this may not all be visible yet, so they are not read."""

TOLERANCE = timedelta(minutes=5)
"""Allowed difference between the clocks of machines that load the same lake."""

LOOKBACK = timedelta(minutes=10)
"""Minimum additional delay after which a record is still found."""

SWEEP = timedelta(hours=24)
"""How often each id is requested and everything since its previous sweep is read again.

A sweep finds records that the usual lookback missed; they lengthen the lookback.
"""

SWEEP_LOOKBACK = timedelta(hours=6)
"""How far before the last sweep the next one begins; it misses records that are even later."""


def still_to_read(
    proven: Iterable[Interval],
    *,
    now: datetime,
    since: datetime | None = None,
    again_from: datetime | None = None,
    only: Interval | None = None,
) -> list[Interval]:
    """Return the ranges to read, oldest first.

    `now` is the service's clock. `since` limits how far back holes are filled; by default, as far
    back as the service holds. Nothing from `again_from` on counts as proven. `only` limits the
    result to one range.
    """
    start, end = since or BEGINNING, now - SETTLE
    if only is not None:
        start, end = max(start, only.start), min(end, only.end)
    if start >= end:
        return []
    done = proven if again_from is None else before(again_from, proven)
    return subtract(Interval(start, end), done)


def sweep_from(swept_at: datetime, proven: Iterable[Sequence[Interval]]) -> datetime:
    """Return where sweeps start, if every id was swept in the day before `swept_at`.

    `proven` holds the proven ranges of the ids, or of the stream. If they end more than a day
    later, loads of other shards have swept the range in between.
    """
    newest = max((_end(interval) for ranges in proven for interval in ranges), default=swept_at)
    return max(swept_at, newest - SWEEP) - SWEEP - SWEEP_LOOKBACK


@dataclass(frozen=True)
class Overlap:
    """What a load reads again although the previous load has read it.

    `unsettled` is the range that the previous load left to be read again. `starts` maps each
    partition to the start of its overlap, which is earlier if it is swept.
    """

    unsettled: Interval
    starts: Mapping[str, datetime]


def overlap(
    proven: Mapping[str, Sequence[Interval]],
    unsettled: Interval,
    *,
    swept: Collection[str],
    swept_from: datetime,
) -> Overlap:
    """Return what a load reads again; `unsettled` is what the previous load left.

    It omits partitions that the previous load did not request, or did not finish.
    """
    last = [(partition, max(ranges, key=_end)) for partition, ranges in proven.items() if ranges]
    starts = {
        partition: max(interval.start, swept_from) if partition in swept else interval.end
        for partition, interval in last
        if interval.end == unsettled.start
    }
    return Overlap(unsettled, starts)


LIST_LIFE = timedelta(hours=1)
"""Maximum age of a bulk list, read by another load, from which a shard skips unchanged ids.

Events since the list was read are left to the next list and not marked as proven.
"""


def expired_ranges(
    proven: Iterable[Interval], *, now: datetime, retention: timedelta
) -> list[Interval]:
    """Return the ranges that the service deleted before they were read, oldest first.

    Records before the first proven instant were never expected, so they are not a gap.
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
    """Return the last part of the range read at `now`, which the next load reads again.

    Everything before it is final, given the known lateness of records.
    """
    return Interval(now - SETTLE - lookback_for(lateness), now - SETTLE)


def _end(interval: Interval) -> datetime:
    return interval.end


def before(instant: datetime, intervals: Iterable[Interval]) -> list[Interval]:
    """Return the parts of ranges that lie before an instant."""
    return [Interval(i.start, min(i.end, instant)) for i in intervals if i.start < instant]
