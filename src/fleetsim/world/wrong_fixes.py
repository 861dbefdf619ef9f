"""Wrong fixes: a receiver is tens of kilometres off for some minutes of a trip.

All fixes of a spell have the same error, or each has a different one. A spell lies within a trip,
at least a minute and a half from either end, so that correct fixes surround it.
"""

from dataclasses import dataclass

import numpy as np

from fleetsim.draws import Draws
from fleetsim.fleet import SimulatedFleet
from fleetsim.units import MINUTE, NEVER, SECOND, Ints, Reals
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
