"""GNSS fixes: every minute on a trip, every quarter hour parked, every four hours at a site.

Some vehicles report only hourly while parked, some send no speed, and some send wrong fixes: all
of a spell have the same error, or each has a different one. A spell lies within a trip, at least a
minute and a half from either end, so that correct fixes surround it.
"""

from dataclasses import dataclass

import numpy as np

from fleetsim.draws import Draws
from fleetsim.fleet import SimulatedFleet
from fleetsim.places import METERS_PER_MILE, MILES_PER_DEGREE, wrapped
from fleetsim.units import MINUTE, NEVER, SECOND, Flags, Ints, Reals
from fleetsim.world import trips
from fleetsim.world.spells import Spells, service_day

_ODDS = 0.3
_LONGEST_MINUTES = 5
_MARGIN = 90 * SECOND
_NEAREST_DEG, _FARTHEST_DEG = 0.4, 1.6


def wrong_spells(draws: Draws, router: Ints, day: Ints, legs: trips.Legs) -> Spells:
    """Return when the receivers of vehicles are wrong, by leg: shape (..., LEGS)."""
    keys = (router[..., None], day[..., None], np.arange(trips.LEGS))
    length = (1 + draws.below(_LONGEST_MINUTES, "wrong-length", *keys)) * MINUTE
    room = np.where(legs.drives, legs.arrive - legs.depart, 0) - length - 2 * _MARGIN
    offset = draws.unit("wrong-start", *keys) * np.maximum(room, 0)
    happens = draws.chance(_ODDS, "wrong", *keys) & (room >= 0)
    start = np.where(happens, legs.depart + _MARGIN + offset.astype(np.int64), NEVER)
    return Spells(start, np.where(happens, start + length, NEVER))


@dataclass(frozen=True)
class Displacement:
    """The error of fixes north and east, both in degrees of latitude; usually 0."""

    north: Reals
    east: Reals


def displacement(draws: Draws, fleet: SimulatedFleet, router: Ints, instant: Ints) -> Displacement:
    """Return how far the fixes of vehicles at instants are off."""
    north, east = np.zeros(len(router)), np.zeros(len(router))
    those = np.flatnonzero(fleet.habits.sends_wrong_fixes[router] & fleet.is_vehicle[router])
    if len(those):
        north[those], east[those] = _displace(draws, fleet, router[those], instant[those])
    return Displacement(north, east)


def _displace(
    draws: Draws, fleet: SimulatedFleet, router: Ints, instant: Ints
) -> tuple[Reals, Reals]:
    """Return degrees north and east of vehicles that send wrong fixes."""
    day = service_day(instant, fleet.day_shift[router])
    legs = trips.day_legs(draws, fleet, router, day)
    holds = wrong_spells(draws, router, day, legs).holds(instant[..., None])
    leg = holds.argmax(axis=-1)
    agree = draws.chance(0.5, "wrong-agree", router, day, leg)
    which = np.where(agree, 0, instant)
    far = draws.between(_NEAREST_DEG, _FARTHEST_DEG, "wrong-far", router, day, leg, which)
    far = np.where(holds.any(axis=-1), far, 0.0)
    turn = 2 * np.pi * draws.unit("wrong-turn", router, day, leg, which)
    return far * np.cos(turn), far * np.sin(turn)


SITE_EVERY = 240
_NOISE_METERS = 4.0


def fix_time(draws: Draws, router: Ints, minute: Ints) -> Ints:
    """Return when a router takes the fix of a minute (counted since 1970)."""
    phase = draws.below(58 * SECOND, "fix-phase", router)
    return np.asarray(minute * MINUTE + phase + draws.below(SECOND, "fix-jitter", router, minute))


def _every(fleet: SimulatedFleet, router: Ints) -> Ints:
    """Return the minutes between the fixes of routers that do not move."""
    parked = fleet.habits.parked_every[router]
    return np.where(fleet.is_vehicle[router], parked, SITE_EVERY)


def is_taken(
    draws: Draws, fleet: SimulatedFleet, router: Ints, minute: Ints, moving: Flags
) -> Flags:
    """Return which minutes give a fix, given whether the vehicle moves then."""
    every = _every(fleet, router)
    due = (minute + draws.below(SITE_EVERY, "fix-minute", router)) % every == 0
    return np.asarray(fleet.has_gnss[router] & (moving | due))


@dataclass(frozen=True)
class Fix:
    """Positions as measured: degrees, metres, miles per hour (NaN if a vehicle sends no speed)."""

    latitude: Reals
    longitude: Reals
    accuracy: Reals
    altitude: Reals
    mph: Reals
    moving: Flags


def measure(draws: Draws, fleet: SimulatedFleet, router: Ints, instant: Ints) -> Fix:
    """Return what routers measure at instants: usually the true location with metres of noise."""
    latitude, longitude = fleet.latitude[router].copy(), fleet.longitude[router].copy()
    mph, moving = np.zeros(len(router)), np.zeros(len(router), dtype=bool)
    rides = fleet.is_vehicle[router]
    noise = np.full(len(router), _NOISE_METERS)
    if fleet.roads is not None and rides.any():
        seen = fleet.roads.locate(router[rides], instant[rides], as_reported=True)
        latitude[rides], longitude[rides], mph[rides] = seen.latitude, seen.longitude, seen.mph
        noise[rides] = 0.0
    elif rides.any():
        spots = trips.locate(draws, fleet, router[rides], instant[rides])
        latitude[rides], longitude[rides] = spots.latitude, spots.longitude
        mph[rides], moving[rides] = spots.mph, spots.moving
    degree = MILES_PER_DEGREE * METERS_PER_MILE
    north = noise * draws.normal("fix-north", router, instant)
    east = noise * draws.normal("fix-east", router, instant)
    off = displacement(draws, fleet, router, instant)
    narrowing = np.cos(np.radians(latitude))
    longitude = longitude + (east / degree + off.east) / narrowing
    return Fix(
        latitude=np.round(latitude + north / degree + off.north, 6),
        longitude=np.round(wrapped(longitude), 6),
        accuracy=np.round(2.5 + np.hypot(north, east), 1),
        altitude=np.round(
            120 + 40 * fleet.region[router] + 3 * draws.normal("fix-up", router, instant), 1
        ),
        mph=np.where(fleet.habits.sends_speed[router], np.round(mph, 1), np.nan),
        moving=moving,
    )


def last_fix(draws: Draws, fleet: SimulatedFleet, router: Ints, instant: Ints) -> Ints:
    """Return when the last fix by each instant was taken, if the router was always on."""
    phase = draws.below(58 * SECOND, "fix-phase", router)
    minute = (instant - phase) // MINUTE
    minute = np.where(fix_time(draws, router, minute) > instant, minute - 1, minute)
    every = _every(fleet, router)
    due = minute - (minute + draws.below(SITE_EVERY, "fix-minute", router)) % every
    latest = fix_time(draws, router, due)
    rides = fleet.is_vehicle[router]
    if fleet.roads is not None:
        latest[rides] = fleet.roads.last_fix(router[rides], instant[rides])
    elif rides.any():
        moving = _last_moving_fix(draws, fleet, router[rides], minute[rides])
        latest[rides] = np.maximum(latest[rides], moving)
    return latest


def _last_moving_fix(draws: Draws, fleet: SimulatedFleet, router: Ints, minute: Ints) -> Ints:
    """Return the latest fix, by a minute, taken on a trip of that service day; 0 if none."""
    newest = fix_time(draws, router, minute)
    legs = trips.day_legs(draws, fleet, router, service_day(newest, fleet.day_shift[router]))
    moving = trips.locate_on(legs, newest).moving
    arrived = np.where(legs.arrive <= newest[:, None], legs.arrive, 0).max(axis=1)
    phase = draws.below(58 * SECOND, "fix-phase", router)
    last = (arrived - 1 - phase) // MINUTE
    last = np.where(fix_time(draws, router, last) >= arrived, last - 1, last)
    return np.where(moving, newest, np.where(arrived > 0, fix_time(draws, router, last), 0))
