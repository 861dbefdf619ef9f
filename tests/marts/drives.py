"""Drives as people make them, second by second, and what a receiver reports of them.

It knows nothing of our marts and shares no code with the simulator: a second opinion.
"""

import itertools
import math
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

METRES_PER_DEGREE = 111_195.0
HOUR = 3600


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
class Fix:
    """What a receiver reports; `moment` is the truth. `kmh` is None if it sends no speed."""

    moment: Moment
    latitude: float
    longitude: float
    kmh: float | None


@dataclass(frozen=True)
class Leg:
    """A part of a day: standing, or driving at a speed, in town with lights and corners."""

    seconds: int
    kmh: float = 0.0
    is_town: bool = False


DAY = (
    Leg(2 * HOUR),
    Leg(1500, 60),
    Leg(1200),
    Leg(900, 35, is_town=True),
    Leg(3 * HOUR),
    Leg(1800, 90),
    Leg(2 * HOUR),
)


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
            if red or (leg.is_town and left > 150 and chance.random() < 1 / 90):
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


def report(
    chance: random.Random,
    moments: Sequence[Moment],
    *,
    every: int,
    noise: float = 0.0,
    sends_speed: bool = True,
    parked_every: int | None = None,
    unseen: Sequence[tuple[int, int]] = (),
) -> list[Fix]:
    """Return the fixes of a receiver: one every so many seconds, with noise that also drifts."""
    fixes: list[Fix] = []
    due, east, north = 0, 0.0, 0.0
    for moment in moments:
        east += chance.gauss(0, noise / 40) - east / 200
        north += chance.gauss(0, noise / 40) - north / 200
        is_parked = moment.speed == 0
        if moment.second < due and (is_parked or moment.second + every > due):
            continue
        if any(first <= moment.second < last for first, last in unseen):
            continue
        due = moment.second + (parked_every if parked_every and is_parked else every)
        up = moment.north + north + chance.gauss(0, noise)
        right = moment.east + east + chance.gauss(0, noise)
        fixes.append(
            Fix(
                moment,
                latitude=40 + up / METRES_PER_DEGREE,
                longitude=-100 + right / METRES_PER_DEGREE / math.cos(math.radians(40)),
                kmh=round(moment.speed * 3.6, 2) if sends_speed else None,
            )
        )
    return fixes


def seen_metres(fixes: Sequence[Fix], trip: Trip) -> float:
    """Return the length of a trip on straight lines between the places where fixes were taken.

    Fixes that are far apart cut corners: no mart can know better.
    """
    first = max((n for n, f in enumerate(fixes) if f.moment.second <= trip.started), default=0)
    last = next((n for n, f in enumerate(fixes) if f.moment.second >= trip.ended), len(fixes) - 1)
    moments = [fix.moment for fix in fixes[first : last + 1]]
    return sum(
        math.hypot(b.east - a.east, b.north - a.north) for a, b in itertools.pairwise(moments)
    )
