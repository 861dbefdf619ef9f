"""Drives as people make them, second by second, and what receivers report of them.

A way of life is a vehicle's day and how its receivers report: once a second to once in five
minutes, with and without speed, with noise that drifts, through tunnels and longer gaps.
"""

import itertools
import math
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

METRES_PER_DEGREE: Final = 111_195.0
HOUR: Final = 3600
UNKNOWN_AFTER: Final = HOUR // 2
"""Seconds without a fix after which it is unknown what a vehicle did."""
_LAST_LIGHT: Final = 150
"""Seconds before the end of a leg in town without traffic lights."""
_DOUBLED: Final = 0.1
_STANDING_KMH: Final = 2
_NOISE_M: Final = 100


@dataclass(frozen=True)
class Moment:
    """Where a vehicle is, in metres east and north of its yard, and its speed in m/s."""

    second: int
    east: float
    north: float
    speed: float


@dataclass(frozen=True)
class Trip:
    """A trip that was driven: when, in seconds, and how far, in metres."""

    started: int
    ended: int
    metres: float


@dataclass(frozen=True)
class ReportedFix:
    """What a receiver reports, in metres and km/h; `moment` is the truth.

    `kmh` is None if it sends no speed, and `delay` is the seconds after the moment's.
    """

    moment: Moment
    east: float
    north: float
    kmh: float | None
    delay: float = 0.0


@dataclass(frozen=True)
class Leg:
    """A part of a day: standing, or driving at a speed, in town with lights and corners."""

    seconds: int
    kmh: float = 0.0
    is_town: bool = False


DAY: Final = (
    Leg(2 * HOUR),
    Leg(1500, 60),
    Leg(1200),
    Leg(900, 35, is_town=True),
    Leg(3 * HOUR),
    Leg(1800, 90),
    Leg(2 * HOUR),
)
_FAR: Final = (Leg(HOUR), Leg(2 * HOUR, 80), Leg(9 * HOUR))
_WALK: Final = (Leg(HOUR), Leg(1800, 5.8), Leg(HOUR))


@dataclass(frozen=True, kw_only=True)
class Way:
    """A way of life: the legs of a day, and how it is reported.

    `unseen` are the periods without a fix, in seconds of the day. If `is_doubled`, one fix in ten
    is followed by another in the same second. `parked_every` is `every` while parked.
    """

    name: str
    legs: tuple[Leg, ...] = DAY
    every: int = 10
    noise: float = 5.0
    sends_speed: bool = True
    parked_every: int | None = None
    unseen: tuple[tuple[int, int], ...] = ()
    receivers: int = 1
    is_doubled: bool = False


def _ways() -> Iterator[Way]:
    for sends_speed, speed in ((True, "speed"), (False, "no speed")):
        for every, noise in itertools.product((1, 5, 10, 30, 60, 120, 300), (0, 5, 10)):
            name = f"a day every {every} s, noise {noise} m, {speed}"
            yield Way(name=name, every=every, noise=noise, sends_speed=sends_speed)
        for every, noise in itertools.product((1, 10, 60, 300), (5, 15, 20)):
            parked = (Leg(8 * HOUR if every > 1 else HOUR),)
            name = f"parked every {every} s, noise {noise} m, {speed}"
            yield Way(name=name, legs=parked, every=every, noise=noise, sends_speed=sends_speed)
        yield Way(
            name=f"seldom while parked, {speed}",
            every=60,
            parked_every=900,
            sends_speed=sends_speed,
        )
        gaps: tuple[tuple[str, tuple[Leg, ...], tuple[int, int]], ...] = (
            ("a tunnel", DAY, (2 * HOUR + 400, 2 * HOUR + 700)),
            ("20 minutes unseen on the road", _FAR, (HOUR + 1200, HOUR + 2400)),
            ("3 hours unseen from the road to the yard", _FAR, (HOUR + 900, 4 * HOUR + 900)),
            ("8 hours unseen in the yard", _FAR, (3 * HOUR + 900, 11 * HOUR + 900)),
            ("40 minutes unseen on the road", _FAR, (HOUR + 1200, HOUR + 3600)),
            ("first seen on the road", _FAR, (0, 2 * HOUR)),
        )
        for name, legs, unseen in gaps:
            yield Way(name=f"{name}, {speed}", legs=legs, unseen=(unseen,), sends_speed=sends_speed)
        yield Way(name=f"two receivers, {speed}", receivers=2, sends_speed=sends_speed)
        yield Way(name=f"two fixes in a second, {speed}", is_doubled=True, sends_speed=sends_speed)
    for every in (1, 10, 60):
        name = f"walking pace, every {every} s"
        yield Way(name=name, legs=_WALK, every=every, noise=3, sends_speed=False)


WAYS: Final = {way.name: way for way in _ways()}


def drive(chance: random.Random, legs: Iterable[Leg]) -> tuple[list[Moment], list[Trip]]:
    """Return a vehicle's moments, one per second, and its trips."""
    moments: list[Moment] = []
    trips: list[Trip] = []
    east = north = speed = 0.0
    heading = chance.random() * 2 * math.pi
    for leg in legs:
        started, metres, red = len(moments), 0.0, 0
        corner, side = chance.uniform(150, 400), chance.choice((-1, 1))
        for left in range(leg.seconds, 0, -1):
            wanted = min(leg.kmh / 3.6, (left - 1) * 1.2)  # it comes to rest with the leg's end
            if red or (leg.is_town and left > _LAST_LIGHT and chance.random() < 1 / 90):
                red = red - 1 if red else chance.randint(10, 70)
                wanted = 0.0
            speed = max(speed + max(-2.5, min(1.5, wanted - speed)), 0.0)
            metres += speed
            corner -= speed
            if leg.is_town and corner < 0:
                heading += side * math.pi / 2
                corner, side = chance.uniform(150, 400), -side
            elif not leg.is_town:
                heading += chance.gauss(0, 0.004)
            east += speed * math.cos(heading)
            north += speed * math.sin(heading)
            moments.append(Moment(len(moments), east, north, speed))
        if leg.kmh:
            trips.append(Trip(started, len(moments), metres))
    return moments, trips


def report(chance: random.Random, moments: Sequence[Moment], way: Way) -> list[ReportedFix]:
    """Return the fixes of a way's receivers, in order."""
    fixes: list[ReportedFix] = []
    for receiver in range(way.receivers):
        fixes += _report(chance, moments, way, delay=receiver / 2)
    return sorted(fixes, key=lambda fix: fix.moment.second + fix.delay)


def _report(
    chance: random.Random, moments: Sequence[Moment], way: Way, delay: float
) -> Iterator[ReportedFix]:
    """Yield the fixes of one receiver; its noise drifts."""

    def fix(delay: float) -> ReportedFix:
        return ReportedFix(
            moment,
            north=moment.north + north + chance.gauss(0, way.noise),
            east=moment.east + east + chance.gauss(0, way.noise),
            kmh=round(moment.speed * 3.6, 2) if way.sends_speed else None,
            delay=delay,
        )

    due, east, north = 0, 0.0, 0.0
    for moment in moments:
        east += chance.gauss(0, way.noise / 40) - east / 200
        north += chance.gauss(0, way.noise / 40) - north / 200
        is_parked = moment.speed == 0
        if moment.second < due and (is_parked or moment.second + way.every > due):
            continue
        if any(first <= moment.second < last for first, last in way.unseen):
            continue
        due = moment.second + (way.parked_every if way.parked_every and is_parked else way.every)
        yield fix(delay)
        if way.is_doubled and chance.random() < _DOUBLED:
            yield fix(delay + 0.4)


def seen_trips(fixes: Sequence[ReportedFix], trip: Trip) -> Iterator[tuple[Trip, float]]:
    """Yield what fixes can show of a trip: its parts, and each part's length between fixes.

    A trip is cut where no fix was taken for half an hour, and ends between fixes that report
    standing and are no further apart than noise. Straight lines between fixes that are far apart
    cut corners: no mart can know better.
    """
    first = max((n for n, f in enumerate(fixes) if f.moment.second <= trip.started), default=0)
    last = next((n for n, f in enumerate(fixes) if f.moment.second >= trip.ended), len(fixes) - 1)
    while first < last - 1 and _shows_standing(fixes[first], fixes[first + 1]):
        first += 1
    while first < last - 1 and _shows_standing(fixes[last - 1], fixes[last]):
        last -= 1
    moments = [fix.moment for fix in fixes[first : last + 1]]
    cuts = [
        n
        for n, (a, b) in enumerate(itertools.pairwise(moments), 1)
        if b.second - a.second >= UNKNOWN_AFTER
    ]
    for begin, end in itertools.pairwise([0, *cuts, len(moments)]):
        part = moments[begin:end]
        seen = sum(
            math.hypot(b.east - a.east, b.north - a.north) for a, b in itertools.pairwise(part)
        )
        if not seen:
            continue  # a moment is no part
        started, ended = max(part[0].second, trip.started), min(part[-1].second, trip.ended)
        yield Trip(started, ended, trip.metres if len(part) == len(moments) else seen), seen


def _shows_standing(before: ReportedFix, after: ReportedFix) -> bool:
    """Return whether a vehicle between two fixes may have stood still, as both report."""
    if before.kmh is None or after.kmh is None:
        return False
    way = math.hypot(after.east - before.east, after.north - before.north)
    return max(before.kmh, after.kmh) < _STANDING_KMH and way < _NOISE_M
