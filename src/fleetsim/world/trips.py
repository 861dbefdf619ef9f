"""Vehicle trips: each service day a route from the depot past a few stops and back.

A trip is one leg between two stops. Within a leg the vehicle follows a bent line and its
progress is 3f² - 2f³ of the time fraction f, so it starts and stops at rest.
"""

from dataclasses import dataclass, replace

import numpy as np

from fleetsim.draws import Draws
from fleetsim.fleet import SimulatedFleet
from fleetsim.places import miles_between, wrapped
from fleetsim.roads import Roads
from fleetsim.units import DAY, HOUR, MINUTE, NEVER, Flags, Ints, Reals
from fleetsim.world.spells import day_start, is_weekend

LEGS = 7
STOPS_PER_DEPOT = 16
_LONGEST_LEG = 75 * MINUTE
_SHORTEST_LEG = 4 * MINUTE
_BEND = 0.12
"""Distance of a leg's middle from the straight line, as a fraction of the leg's length."""


@dataclass(frozen=True)
class Legs:
    """The trips of vehicle days: arrays of shape (..., LEGS), NEVER for legs that a day lacks.

    Longitudes are not wrapped: they exceed 180 degrees where a route crosses the antimeridian.
    """

    depart: Ints
    arrive: Ints
    lat_from: Reals
    lon_from: Reals
    lat_to: Reals
    lon_to: Reals

    @property
    def drives(self) -> Flags:
        """Return which legs are driven."""
        return self.depart < NEVER

    def miles(self) -> Reals:
        """Return each leg's straight length in miles."""
        return miles_between(self.lat_from, self.lon_from, self.lat_to, self.lon_to)

    def parked_from(self) -> Ints:
        """Return when the last trip of each day ends."""
        return np.asarray(np.where(self.drives, self.arrive, 0).max(axis=-1))


def day_legs(draws: Draws, fleet: SimulatedFleet, router: Ints, day: Ints) -> Legs:
    """Return the trips of vehicles on service days (arrays of one shape)."""
    if fleet.roads is not None:
        return _driven_legs(fleet.roads, router, day)
    visits = _visits(draws, router, day)
    latitude, longitude = _route(draws, fleet, router, day, visits)
    lat_from, lat_to = latitude[..., :-1], latitude[..., 1:]
    lon_from, lon_to = longitude[..., :-1], longitude[..., 1:]
    depart, arrive = _timetable(
        draws, fleet, router, day, miles_between(lat_from, lon_from, lat_to, lon_to)
    )
    drives = np.arange(LEGS) <= visits[..., None]
    return Legs(
        depart=np.where(drives, depart, NEVER),
        arrive=np.where(drives, arrive, NEVER),
        lat_from=lat_from,
        lon_from=lon_from,
        lat_to=lat_to,
        lon_to=lon_to,
    )


def _driven_legs(roads: Roads, router: Ints, day: Ints) -> Legs:
    """Return the trips that vehicles drive as people do."""
    shape = (*router.shape, LEGS)
    depart, arrive = np.full(shape, NEVER), np.full(shape, NEVER)
    lat_from, lon_from, lat_to, lon_to = (np.zeros(shape) for _ in range(4))
    for driven, where in roads.days(router, day):
        latitude, longitude = driven.moments.latitude, driven.moments.longitude
        for leg, trip in enumerate(driven.trips):
            first, last = driven.ends(trip)
            depart[where, leg] = driven.instant(trip.started)
            arrive[where, leg] = driven.instant(trip.ended)
            lat_from[where, leg], lon_from[where, leg] = latitude[first], longitude[first]
            lat_to[where, leg], lon_to[where, leg] = latitude[last], longitude[last]
    return Legs(depart, arrive, lat_from, lon_from, lat_to, lon_to)


def _visits(draws: Draws, router: Ints, day: Ints) -> Ints:
    """Return how many stops a day's route has: 3 to 6, on weekends 1 or 2."""
    return np.where(
        is_weekend(day),
        1 + draws.below(2, "visits", router, day),
        3 + draws.below(4, "visits", router, day),
    )


def _route(
    draws: Draws, fleet: SimulatedFleet, router: Ints, day: Ints, visits: Ints
) -> tuple[Reals, Reals]:
    """Return the points of a day's route, depot first and last, shape (..., LEGS + 1)."""
    number = np.arange(LEGS + 1)
    stop = draws.below(STOPS_PER_DEPOT, "stop", router[..., None], day[..., None], number)
    # Consecutive stops must differ, or a trip would have no length.
    stop = (stop - stop % 2 + number % 2) % STOPS_PER_DEPOT
    at_depot = (number == 0) | (number > visits[..., None])
    depot_lat, depot_lon = fleet.latitude[router][..., None], fleet.longitude[router][..., None]
    depot = np.round(depot_lat * 1e6).astype(np.int64)
    latitude = depot_lat + draws.between(-0.22, 0.22, "stop-lat", depot, stop)
    longitude = depot_lon + draws.between(-0.26, 0.26, "stop-lon", depot, stop)
    return np.where(at_depot, depot_lat, latitude), np.where(at_depot, depot_lon, longitude)


def _timetable(
    draws: Draws, fleet: SimulatedFleet, router: Ints, day: Ints, miles: Reals
) -> tuple[Ints, Ints]:
    """Return departures and arrivals: drives at 22 to 38 mph, stops of 8 to 40 minutes."""
    leg = np.arange(LEGS)
    keys = (router[..., None], day[..., None], leg)
    driving = (miles / draws.between(22, 38, "leg-mph", *keys) * HOUR).astype(np.int64)
    driving = np.clip(driving, _SHORTEST_LEG, _LONGEST_LEG)
    standing = draws.between(8 * MINUTE, 40 * MINUTE, "dwell", *keys).astype(np.int64)
    begin = day_start(day, fleet.day_shift[router]) + 6 * HOUR
    begin = begin + draws.between(0, 2 * HOUR, "first-departure", router, day).astype(np.int64)
    cycle = np.cumsum(driving + standing, axis=-1)
    depart = begin[..., None] + cycle - driving - standing
    return depart, depart + driving


@dataclass(frozen=True)
class Positions:
    """Positions of vehicles: degrees, miles per hour, and whether they are on a trip."""

    latitude: Reals
    longitude: Reals
    mph: Reals
    moving: Flags


def locate(draws: Draws, fleet: SimulatedFleet, router: Ints, instant: Ints) -> Positions:
    """Return positions of vehicles at instants (arrays of one shape)."""
    if fleet.roads is not None:
        at = fleet.roads.locate(router, instant)
        return Positions(at.latitude, at.longitude, at.mph, moving=at.mph > 0)
    day = (instant - fleet.day_shift[router]) // DAY
    spots = locate_on(day_legs(draws, fleet, router, day), instant)
    return replace(spots, longitude=wrapped(spots.longitude))


def locate_on(legs: Legs, instant: Ints) -> Positions:
    """Return positions along given legs; before the first and after the last, at the depot."""
    begun = (legs.depart <= instant[..., None]).sum(axis=-1)
    index = np.maximum(begun - 1, 0)[..., None]

    def pick(values: Reals) -> Reals:
        return np.asarray(np.take_along_axis(values, index, axis=-1)[..., 0])

    depart = np.take_along_axis(legs.depart, index, axis=-1)[..., 0]
    arrive = np.take_along_axis(legs.arrive, index, axis=-1)[..., 0]
    fraction = np.clip((instant - depart) / np.maximum(arrive - depart, 1), 0.0, 1.0)
    progress = fraction * fraction * (3 - 2 * fraction)
    north, east = pick(legs.lat_to - legs.lat_from), pick(legs.lon_to - legs.lon_from)
    aside = _BEND * np.sin(np.pi * progress)
    hours = np.maximum(arrive - depart, 1) / HOUR
    moving = (begun > 0) & (instant >= depart) & (instant < arrive)
    return Positions(
        latitude=pick(legs.lat_from) + north * progress - east * aside,
        longitude=pick(legs.lon_from) + east * progress + north * aside,
        mph=np.where(moving, pick(legs.miles()) / hours * 6 * fraction * (1 - fraction), 0.0),
        moving=moving,
    )
