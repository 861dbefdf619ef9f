"""Routers that are registered again: after a factory reset, or because another replaced them.

Deleting a router unregisters it and removes all its data (service contract, Endpoints). The router
registered after it gets a new id. So the fleet has both routers: one is registered until an
instant, the other from then on. The instant lies after the simulator's start, so that a client can
see the change, and in a quiet part of the router's service day, in which nothing happens.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from fleetsim.draws import Draws
from fleetsim.units import DAY, MINUTE, NEVER, Flags, Ints

_CYCLE: Final = 40
_RESET: Final = (12, 36)
_REPLACED: Final = (38,)
"""Positions in each cycle of 40 routers, after the first twelve, so that small fleets have none."""

_FIRST_DAY, _DAYS = 2, 4
_QUIET_FROM, _QUIET_UNTIL = -5 * MINUTE, -MINUTE
"""Part of a service day, counted back from its end, in which every spell and trip is over."""

STAYS, IS_RESET, IS_REPLACED = range(3)
REGISTRATION_KINDS: Final = ("", "is reset to factory settings", "is replaced by another")


@dataclass(frozen=True)
class RegistrationRows:
    """The rows of a fleet's routers: the requested ones, then those registered after one of them.

    `follows` has the row of the router before each one; its own row for a router without one.
    `hardware` has the row whose device each one is: after a factory reset, that of the same device.
    """

    follows: Ints
    hardware: Ints
    kind: Ints


def registration_rows(routers: int) -> RegistrationRows:
    """Return the rows of a fleet with this number of routers."""
    asked = np.arange(routers, dtype=np.int64)
    kind = np.full(routers, STAYS)
    kind[np.isin(asked % _CYCLE, _RESET)] = IS_RESET
    kind[np.isin(asked % _CYCLE, _REPLACED)] = IS_REPLACED
    left = np.flatnonzero(kind != STAYS)
    later = routers + np.arange(len(left))
    return RegistrationRows(
        follows=np.concatenate([asked, left]),
        hardware=np.concatenate([asked, np.where(kind[left] == IS_RESET, left, later)]),
        kind=np.concatenate([kind, kind[left]]),
    )


@dataclass(frozen=True)
class Registrations:
    """The period in which each router is registered, one array element per router.

    `since` is 0 if a router was registered before the world begins; `until` is NEVER if it stays.
    """

    rows: RegistrationRows
    since: Ints
    until: Ints

    def holds(self, router: Ints, instant: Ints | int) -> Flags:
        """Return which routers are registered at instants."""
        return np.asarray((self.since[router] <= instant) & (instant < self.until[router]))

    def has_begun(self, instant: int) -> Flags:
        """Return, for every router, whether it was registered by an instant."""
        return np.asarray(self.since <= instant)

    def number(self, instant: int) -> int:
        """Return how many routers were unregistered by an instant; caches use it as a version."""
        return int((self._ends <= instant).sum())

    @cached_property
    def _ends(self) -> Ints:
        return self.until[self.until < NEVER]


def assign_registrations(
    draws: Draws, rows: RegistrationRows, day_shift: Ints, clock_start: int
) -> Registrations:
    """Return the registrations of a fleet; its routers' service days begin at `day_shift`."""
    first = rows.follows
    day = (clock_start - day_shift[first]) // DAY + _FIRST_DAY
    day = day + draws.below(_DAYS, "registration-day", first)
    quiet = draws.between(_QUIET_FROM, _QUIET_UNTIL, "registration-at", first).astype(np.int64)
    at = day * DAY + day_shift[first] + quiet
    leaves = (rows.kind != STAYS) & (first == np.arange(len(first)))
    comes = first != np.arange(len(first))
    return Registrations(rows, np.where(comes, at, 0), np.where(leaves, at, NEVER))
