"""When each id of a fan-out is requested. Pure.

An id is requested once per period of its list's freshness, unless a bulk list says that it has not
changed. It is requested earlier if about a page of its records waits, as its own rate suggests, or
if something has happened to it, such as an alert. Once a day each id is requested whatever the
lists say, and its last day is read again: the sweep.

Each id has its own turn in a period, so the loads of a period share the calls evenly. One turn in a
day is its sweep.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from zlib import crc32

from fleetlake.planning.coverage import SWEEP, TOLERANCE
from fleetlake.planning.intervals import BEGINNING, Interval

MEASURED = 256
"""One id in so many is requested by each load, to measure how late records become visible."""

RATE_PERIOD = timedelta(days=2)
"""The time whose records tell an id's rate."""

Id = int | None
"""An id of a fan-out; None for a stream without one."""


_HOUR = timedelta(hours=1)

_PLACES = 1024
"""Times of a day at which an id may have its sweep."""


@dataclass(frozen=True)
class Turns:
    """The turns of the ids of a list with some freshness; zero means at each load.

    `own` has the ids with another freshness.

    The place of an id in the day is its own for ever, and its sweep is at that time. Were it to
    move with the freshness, records that came late between two sweeps would not be found.
    """

    freshness: timedelta = timedelta(0)
    own: Mapping[Id, timedelta] = field(default_factory=dict)

    def at_each_load(self, ids: Iterable[Id]) -> frozenset[Id]:
        """Return the ids that have no turns."""
        return frozenset(one for one in ids if not self.own.get(one, self.freshness))

    def last(self, ids: Iterable[Id], at: datetime) -> Mapping[Id, datetime]:
        """Return the last turn of each id, up to `at`."""
        found: dict[Id, datetime] = {}
        of_period: dict[timedelta, list[Id]] = {}
        for one in ids:
            of_period.setdefault(self.own.get(one, self.freshness) or SWEEP, []).append(one)
        for period, those in of_period.items():
            found |= _last(those, at, every=SWEEP / math.ceil(SWEEP / _between_loads(period)))
        return found

    def last_sweeps(self, ids: Iterable[Id], at: datetime) -> Mapping[Id, datetime]:
        """Return the last turn of each id, up to `at`, that is a sweep: one of those of a day."""
        return _last(ids, at, every=SWEEP)


def _between_loads(period: timedelta) -> timedelta:
    """Return the time between two turns; loads are hourly, and do not start on the second."""
    return period if period > _HOUR else max(period - TOLERANCE, period / 2)


def _last(ids: Iterable[Id], at: datetime, *, every: timedelta) -> Mapping[Id, datetime]:
    last = [at - (at - BEGINNING - SWEEP * place / _PLACES) % every for place in range(_PLACES)]
    return {one: last[0 if one is None else _place(one)] for one in ids}


def _place(one: int) -> int:
    return crc32(str(one).encode()) % _PLACES


@dataclass(frozen=True, kw_only=True)
class Signs:
    """What says which ids of a fan-out to request at `now`, by id.

    Records are wanted from `since` on. `swept` ids are requested in any case. `moved_at` is when a
    bulk list saw an id change. Without `turn_at`, every id that may have changed is requested; with
    it, also `counted` is known, the records of each id in the last `RATE_PERIOD`, and `urged_at`,
    when something last happened to it. A request is worth it for `page` records. The last load
    that ended had begun at `read_at`. `measured` ids are requested by each load.
    """

    now: datetime
    since: datetime = BEGINNING
    swept: Collection[Id] = ()
    moved_at: Mapping[Id, datetime] = field(default_factory=dict)
    turn_at: Mapping[Id, datetime] | None = None
    counted: Mapping[Id, int] = field(default_factory=dict)
    urged_at: Mapping[Id, datetime] = field(default_factory=dict)
    page: float = 1.0
    read_at: datetime = BEGINNING
    measured: Collection[Id] = ()

    def ask_for(self, one: Id, proven: Sequence[Interval]) -> bool:
        """Return whether to request an id, of which these ranges are proven.

        An id that is not requested stays proven only as far as before.
        """
        is_only_newest_unread = len(proven) == 1 and proven[0].start <= self.since
        if one in self.swept or not is_only_newest_unread:
            return True
        covered = proven[0].end
        if one in self.moved_at and self.moved_at[one] < covered:
            return False
        if self.turn_at is None or one in self.measured:
            return True
        is_turn = max(covered, self.read_at) < self.turn_at[one]
        is_urged = one in self.urged_at and self.urged_at[one] >= covered
        return is_turn or is_urged or self._waiting(one, proven[0]) >= self.page

    def _waiting(self, one: Id, proven: Interval) -> float:
        """Return how many records of an id are to be expected since its proven range."""
        known = max(proven.end - max(proven.start, self.now - RATE_PERIOD), timedelta(hours=1))
        return self.counted.get(one, 0) * ((self.now - proven.end) / known)
