"""What of a stream is still to be read, and what a read may call proven. Pure.

A record may become visible some time after the instant it carries. So reads stop one settle
time before now, and a range counts as proven only once it is older than the lookback too: what
is younger is read again by the next load, whatever became of this one.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from fleetlake.intervals import BEGINNING, Interval, coalesce, subtract

SETTLE = timedelta(seconds=60)
"""Records younger than this may not all be visible yet, so reads stop short of them."""

LOOKBACK = timedelta(minutes=10)
"""How much later than that a record may still show up and be caught."""


def still_to_read(
    proven: Iterable[Interval],
    *,
    now: datetime,
    since: datetime | None = None,
    changing_since: datetime | None = None,
    only: Interval | None = None,
) -> list[Interval]:
    """Return the ranges to read, oldest first.

    `now` is the service's clock. `since` bounds how far back holes are filled; without it they
    are filled as far as the service holds. `changing_since` is the event time of the oldest
    record that may still change; nothing after it is done with. `only` leaves out what lies
    outside of it.
    """
    start, end = since or BEGINNING, now - SETTLE
    if only is not None:
        start, end = max(start, only.start), min(end, only.end)
    if start >= end:
        return []
    done = proven if changing_since is None else before(changing_since, proven)
    return subtract(Interval(start, end), done)


SWEEP = timedelta(hours=24)
"""How often every id is asked, whatever the bulk list says of it."""


def needs_asking(proven: Sequence[Interval], *, moved_at: datetime | None, now: datetime) -> bool:
    """Return whether an id of a fan-out may have anything new.

    `moved_at` is when the bulk list last saw it move, None where the list does not know it. An
    id that is not asked stays proven only as far as it was, so nothing is claimed of it.
    """
    covered = max((interval.end for interval in proven), default=None)
    if covered is None or moved_at is None or len(coalesce(proven)) > 1:
        return True
    return moved_at >= covered or now - covered >= SWEEP


def forgotten(proven: Iterable[Interval], *, now: datetime, retention: timedelta) -> list[Interval]:
    """Return the ranges that the service forgot before they were read, oldest first.

    What lies before the first proven instant was never promised to anyone: it is no gap.
    """
    proven = list(proven)
    horizon = now - retention
    start = min((interval.start for interval in proven), default=horizon)
    return subtract(Interval(start, horizon), proven) if start < horizon else []


def final_before(now: datetime) -> datetime:
    """Return the instant before which what is read now stays as it is."""
    return now - SETTLE - LOOKBACK


def before(instant: datetime, intervals: Iterable[Interval]) -> list[Interval]:
    """Return the parts of ranges that lie before an instant."""
    return [Interval(i.start, min(i.end, instant)) for i in intervals if i.start < instant]
