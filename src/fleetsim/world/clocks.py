"""Clocks of devices: some drift by seconds a day, and are corrected once a week."""

import numpy as np

from fleetsim.draws import Draws
from fleetsim.fleet import SimulatedFleet
from fleetsim.units import DAY, SECOND, Ints

_WEEK = 7 * DAY
_WORST_S_A_DAY = 15.0


def clock_error(draws: Draws, fleet: SimulatedFleet, router: Ints, instant: Ints) -> Ints:
    """Return how far each router's clock is ahead of the service's at instants."""
    phase = draws.below(_WEEK, "clock-set", router)
    days = (instant - phase) % _WEEK / DAY
    rate = draws.between(-_WORST_S_A_DAY, _WORST_S_A_DAY, "clock-rate", router) * SECOND
    error = (rate * days).astype(np.int64)
    return np.where(fleet.habits.has_drifting_clock[router], error, 0)
