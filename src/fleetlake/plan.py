"""What of a stream is still to be read. Pure."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from fleetlake.intervals import BEGINNING, Interval, covered_until, subtract

SETTLE = timedelta(seconds=60)
"""Records younger than this may not all be visible yet, so reads stop short of them."""

LOOKBACK = timedelta(minutes=10)
"""What is read again before the newest proven instant, for records that showed up late."""


def still_to_read(
    proven: Iterable[Interval],
    *,
    now: datetime,
    since: datetime | None = None,
    changing_since: datetime | None = None,
) -> list[Interval]:
    """Return the ranges to read, oldest first: the holes, and the lookback before the newest.

    `now` is the service's clock. `since` bounds how far back holes are filled; without it they
    are filled as far as the service holds. `changing_since` is the event time of the oldest
    record that may still change.
    """
    goal_start, goal_end = since or BEGINNING, now - SETTLE
    if goal_start >= goal_end:
        return []
    proven = list(proven)
    covered = covered_until(proven)
    if covered is None:
        return [Interval(goal_start, goal_end)]
    again = max(covered - LOOKBACK, BEGINNING)
    if changing_since is not None:
        again = min(again, changing_since)
    trusted = [Interval(i.start, min(i.end, again)) for i in proven if i.start < again]
    return subtract(Interval(goal_start, goal_end), trusted)
