"""The roads of vehicles that drive as people do, each vehicle in its own way of life.

Two service days belong together: on the second, a vehicle drives the first day's way back. So every
other day begins in the yard, and each day is a function of seed, vehicle and date.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Final

import numpy as np

from fleetsim.drives import METRES_PER_DEGREE, WAYS, Moment, Trip, Way, drive, report, seen_trips
from fleetsim.habits import Habits
from fleetsim.places import METERS_PER_MILE, wrapped
from fleetsim.units import DAY, HOUR, SECOND, Flags, Ints, Reals

_BEGINS_AFTER: Final = 6 * HOUR
_LATEST_S: Final = 3600
_DAYS_CACHED: Final = 512
_KMH_PER_MPH: Final = METERS_PER_MILE / 1000


@dataclass(frozen=True)
class Places:
    """Places at instants, in order: degrees, and miles per hour (NaN if there is no speed)."""

    at: Ints
    latitude: Reals
    longitude: Reals
    mph: Reals

    def index(self, instant: Ints) -> Ints:
        """Return the last place by each instant; the first one before all of them."""
        return np.maximum(np.searchsorted(self.at, instant, side="right") - 1, 0)


@dataclass(frozen=True)
class DrivenDay:
    """A vehicle's service day: where it was each second, what was reported, and its trips.

    `parts` has, per trip, what its fixes can show, with the length between these fixes.
    """

    moments: Places
    fixes: Places
    trips: tuple[Trip, ...]
    parts: tuple[tuple[tuple[Trip, float], ...], ...]

    def instant(self, second: int) -> int:
        """Return the instant of a second of the day's drive."""
        return int(self.moments.at[0]) + second * SECOND

    def ends(self, trip: Trip) -> tuple[int, int]:
        """Return where a trip starts and ends, as indices of moments."""
        return max(trip.started - 1, 0), trip.ended - 1


@dataclass(frozen=True)
class Roads:
    """What vehicles drive and report.

    `vehicle` numbers the vehicles of the fleet's rows; a router registered again keeps its number.
    """

    seed: int
    vehicle: Ints
    latitude: Reals
    longitude: Reals
    day_shift: Ints

    def way(self, row: int) -> Way:
        """Return the way of life of a vehicle."""
        return tuple(WAYS.values())[int(self.vehicle[row]) % len(WAYS)]

    def habits(self, habits: Habits, is_vehicle: Flags) -> Habits:
        """Return the habits of a fleet whose vehicles report as their way of life says."""
        speeds = [self.way(row).sends_speed for row in range(len(is_vehicle))]
        return replace(
            habits,
            sends_speed=np.where(is_vehicle, speeds, habits.sends_speed),
            sends_wrong_fixes=habits.sends_wrong_fixes & ~is_vehicle,
        )

    def day(self, row: int, day: int) -> DrivenDay:
        """Return a service day of a vehicle."""
        return self._days(row, day)

    def days(self, router: Ints, day: Ints) -> Iterator[tuple[DrivenDay, Ints]]:
        """Yield the days of vehicles, each with its positions in the given arrays."""
        pairs, which = np.unique(np.stack([router, day]), axis=1, return_inverse=True)
        for number, (row, date) in enumerate(pairs.T.tolist()):
            yield self.day(row, date), np.flatnonzero(which.ravel() == number)

    def locate(self, router: Ints, instant: Ints, *, as_reported: bool = False) -> Places:
        """Return where vehicles are at instants, or what their last fix of the day reports."""
        latitude, longitude, mph = (np.zeros(len(router)) for _ in range(3))
        for driven, where in self.days(router, (instant - self.day_shift[router]) // DAY):
            track = driven.fixes if as_reported else driven.moments
            index = track.index(instant[where])
            latitude[where], longitude[where] = track.latitude[index], track.longitude[index]
            mph[where] = track.mph[index]
        return Places(instant, latitude, longitude, mph)

    def fixes_between(self, row: int, since: int, until: int) -> Ints:
        """Return when a vehicle took fixes in [since, until)."""
        shift = int(self.day_shift[row])
        days = range((since - shift) // DAY, (until - 1 - shift) // DAY + 1)
        at = np.concatenate([self.day(row, day).fixes.at for day in days] or [np.array([], int)])
        return at[(at >= since) & (at < until)]

    def last_fix(self, router: Ints, instant: Ints) -> Ints:
        """Return when each vehicle took its last fix by an instant."""
        day = (instant - self.day_shift[router]) // DAY
        found = np.zeros(len(router), dtype=np.int64)
        for back in (1, 0):
            for driven, where in self.days(router, day - back):
                at = driven.fixes.at[driven.fixes.index(instant[where])]
                found[where] = np.where(at <= instant[where], at, found[where])
        return found

    @cached_property
    def _days(self) -> Callable[[int, int], DrivenDay]:
        return lru_cache(_DAYS_CACHED)(self._drive)

    def _drive(self, row: int, day: int) -> DrivenDay:
        way, number = self.way(row), int(self.vehicle[row])
        pair, is_back = divmod(day, 2)
        chance = random.Random(f"{self.seed} {number} {pair}")  # noqa: S311 - no secret is drawn
        moments, trips = drive(chance, way.legs)
        if is_back:
            moments, trips = _way_back(moments, trips)
        chance = random.Random(f"{self.seed} {number} {pair} {is_back}")  # noqa: S311 - no secret is drawn
        begins = day * DAY + int(self.day_shift[row]) + _BEGINS_AFTER
        begins += chance.randrange(_LATEST_S * SECOND)
        fixes = report(chance, moments, way)
        return DrivenDay(
            self._places(
                row, begins, [(m.second, m.east, m.north, 3.6 * m.speed) for m in moments]
            ),
            self._places(
                row, begins, [(f.moment.second + f.delay, f.east, f.north, f.kmh) for f in fixes]
            ),
            tuple(trips),
            tuple(tuple(seen_trips(fixes, trip)) for trip in trips),
        )

    def _places(
        self, row: int, begins: int, found: list[tuple[float, float, float, float | None]]
    ) -> Places:
        second, east, north, kmh = np.array(found, dtype=np.float64).T
        degrees = METRES_PER_DEGREE * np.cos(np.radians(self.latitude[row]))
        return Places(
            at=begins + np.round(second * SECOND).astype(np.int64),
            latitude=self.latitude[row] + north / METRES_PER_DEGREE,
            longitude=np.asarray(wrapped(self.longitude[row] + east / degrees)),
            mph=kmh / _KMH_PER_MPH,
        )


def _way_back(moments: list[Moment], trips: list[Trip]) -> tuple[list[Moment], list[Trip]]:
    """Return a day's drive in the other direction."""
    last = len(moments)
    back = [replace(m, second=last - 1 - m.second) for m in reversed(moments)]
    ends = [replace(t, started=last - t.ended, ended=last - t.started) for t in reversed(trips)]
    return back, ends
