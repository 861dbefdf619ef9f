"""Habits: peculiarities in how some routers report, assigned in a fixed cycle.

Even a small fleet has some of them; the first vehicle of a fleet has none.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from fleetsim.units import Flags, Ints

_CYCLE: Final = 40
_FAR: Final = (13, 27, 33)
_FARTHER: Final = (27, 33)
_HOURLY: Final = (8, 31)
_WITHOUT_SPEED: Final = (11, 26)
_WITH_WRONG_FIXES: Final = (6, 21)
_WITH_DRIFTING_CLOCK: Final = (9, 16, 35)
_WITH_FAILING_BACKUP: Final = (34, 37, 39)
"""Positions in a cycle of 40 routers, 16 of them in vehicles; two or three have each habit."""

_PARKED_EVERY: Final = 15
_SELDOM_EVERY: Final = 60


@dataclass(frozen=True)
class Habits:
    """How routers report, one array element per router."""

    parked_every: Ints
    """Minutes between the fixes of a parked vehicle."""
    sends_speed: Flags
    sends_wrong_fixes: Flags
    has_drifting_clock: Flags
    backup_fails: Flags
    """The first backup fails too in a long outage of a wired primary."""


def is_far(router: Ints) -> Flags:
    """Return which routers are in the regions near the antimeridian."""
    return np.isin(router % _CYCLE, _FAR)


def far_region(router: Ints) -> Ints:
    """Return which of the two far regions routers would be in, 0 or 1."""
    return np.isin(router % _CYCLE, _FARTHER).astype(np.int64)


def assign_habits(router: Ints) -> Habits:
    """Return the habits of routers by row number."""
    position = router % _CYCLE
    return Habits(
        parked_every=np.where(np.isin(position, _HOURLY), _SELDOM_EVERY, _PARKED_EVERY),
        sends_speed=~np.isin(position, _WITHOUT_SPEED),
        sends_wrong_fixes=np.isin(position, _WITH_WRONG_FIXES),
        has_drifting_clock=np.isin(position, _WITH_DRIFTING_CLOCK),
        backup_fails=np.isin(position, _WITH_FAILING_BACKUP),
    )
