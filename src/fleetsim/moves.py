"""Which modem is in which bay of which router, and with which SIM card.

A net device row identifies both a device and the bay it was in at first. Devices that move swap
bays in pairs, repeatedly. So each is in its own bay or in its partner's, and one function maps
devices to bays and back. The rows after those of the routers are spare modems in a drawer.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from fleetsim.draws import Draws
from fleetsim.units import DAY, Flags, Ints

_CYCLE: Final = 40
_SWAPPED: Final = (14, 15)
_TAKING_OVER: Final = (17, 18)
_TURNED_ROUND: Final = 20
_FROM_DRAWER: Final = 22
_WITH_NEW_SIMS: Final = (25, 28)
"""Positions in each cycle of 40 routers, after the first twelve, so that small fleets have none."""

_MOVES_EVERY: Final = 6 * DAY
_SIMS_EVERY: Final = 5 * DAY

STAYS, SWAPPED, TAKES_OVER, TURNED_ROUND, FROM_DRAWER = range(5)
MOVE_KINDS: Final = (
    "stays",
    "moves with its name",
    "takes over the name of another",
    "changes ports within its router",
    "changes places with one in a drawer",
)


@dataclass(frozen=True)
class Moves:
    """One array element per net device row: how its device moves, and its first carrier."""

    draws: Draws
    carriers: int
    in_routers: int
    partner: Ints
    kind: Ints
    swaps_sim: Flags
    carrier: Ints

    def bay_of(self, device: Ints, instant: Ints) -> Ints:
        """Return the bay each device is in, or the device that is in each bay."""
        found = np.array(device, dtype=np.int64)
        moving = self.partner[found] != found
        if moving.any():
            turned = self._moves(found[moving], _at(instant, moving)) % 2 == 1
            found[moving] = np.where(turned, self.partner[found[moving]], found[moving])
        return found

    def moved_at(self, device: Ints, instant: Ints) -> Ints:
        """Return when each device last moved by an instant; 0 if it never moves."""
        found = np.zeros(np.shape(device), dtype=np.int64)
        moving = self.partner[device] != device
        if moving.any():
            phase = self._phase(device[moving])
            number = self._moves(device[moving], _at(instant, moving))
            found[moving] = number * _MOVES_EVERY + phase
        return found

    def is_drawer(self, bay: Ints) -> Flags:
        """Return which bays are places in a drawer."""
        return np.asarray(bay >= self.in_routers)

    def keeps_name(self, device: Ints) -> Flags:
        """Return which devices keep their name when they move; others are named after their bay."""
        return np.asarray(np.isin(self.kind[device], (STAYS, SWAPPED)))

    def sim_of(self, device: Ints, instant: Ints) -> Ints:
        """Return the number of the SIM card in each device; 0 if it is never swapped."""
        number = (instant - self._sim_phase(device)) // _SIMS_EVERY
        return np.where(self.swaps_sim[device], number, 0)

    def carrier_of(self, device: Ints, instant: Ints) -> Ints:
        """Return the carrier of each device; a new SIM card is two carriers further in the list.

        So the two modems of a router have different carriers as long as neither moves.
        """
        return np.asarray((self.carrier[device] + 2 * self.sim_of(device, instant)) % self.carriers)

    def changes(self, device: int, since: int, until: int) -> list[int]:
        """Return the instants in (since, until] at which a device or its SIM moved."""
        row = np.array([device])
        found: set[int] = set()
        if self.partner[device] != device:
            found.update(_every(int(self._phase(row)[0]), _MOVES_EVERY, since, until))
        if self.swaps_sim[device]:
            found.update(_every(int(self._sim_phase(row)[0]), _SIMS_EVERY, since, until))
        return sorted(found)

    def _moves(self, device: Ints, instant: Ints) -> Ints:
        return np.asarray((instant - self._phase(device)) // _MOVES_EVERY)

    def _phase(self, device: Ints) -> Ints:
        pair = np.minimum(device, self.partner[device])
        return np.asarray(self.draws.unit("move-phase", pair) * _MOVES_EVERY).astype(np.int64)

    def _sim_phase(self, device: Ints) -> Ints:
        return np.asarray(self.draws.unit("sim-phase", device) * _SIMS_EVERY).astype(np.int64)


def _at(instant: Ints, chosen: Flags) -> Ints:
    return np.broadcast_to(instant, chosen.shape)[chosen]


def _every(phase: int, period: int, since: int, until: int) -> range:
    """Return the instants of a period within (since, until]."""
    first = (since - phase) // period + 1
    return range(first * period + phase, until + 1, period)


def assign_moves(
    draws: Draws, first_carrier: Ints, bays: Ints, orphans: int, carriers: int
) -> Moves:
    """Return the moves of a fleet from the bays of its routers' modems.

    `bays` has, for each router, the row of its backup's modem and of its other modem, or -1 for
    both if it has no modems. `first_carrier` has the carrier of every row.
    """
    rows = len(first_carrier)
    in_routers = rows - orphans
    partner, kind = np.arange(rows, dtype=np.int64), np.full(rows, STAYS)
    swaps_sim = np.zeros(rows, dtype=bool)
    for start in range(0, len(bays), _CYCLE):
        backup = {i: int(row) for i, row in enumerate(bays[start : start + _CYCLE, 0])}
        other = {i: int(row) for i, row in enumerate(bays[start : start + _CYCLE, 1])}
        drawer = in_routers + 1 + start // _CYCLE
        for one, another, how in (
            (backup.get(_SWAPPED[0], -1), backup.get(_SWAPPED[1], -1), SWAPPED),
            (backup.get(_TAKING_OVER[0], -1), backup.get(_TAKING_OVER[1], -1), TAKES_OVER),
            (backup.get(_TURNED_ROUND, -1), other.get(_TURNED_ROUND, -1), TURNED_ROUND),
            (backup.get(_FROM_DRAWER, -1), drawer if drawer < rows else -1, FROM_DRAWER),
        ):
            if min(one, another) >= 0:
                partner[one], partner[another] = another, one
                kind[[one, another]] = how
        swapped = [backup[i] for i in _WITH_NEW_SIMS if backup.get(i, -1) >= 0]
        swaps_sim[swapped] = True
    return Moves(
        draws=draws,
        carriers=carriers,
        in_routers=in_routers,
        partner=partner,
        kind=kind,
        swaps_sim=swaps_sim,
        carrier=first_carrier,
    )
