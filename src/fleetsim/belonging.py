"""The account, group and name of each router; some change and change back.

Some groups are renamed, too.
"""

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from fleetsim.draws import Draws
from fleetsim.identifiers import one_in
from fleetsim.units import DAY, Flags, Ints

_CYCLE: Final = 40
_CHANGING_ACCOUNT: Final = (19, 29)
_CHANGING_GROUP: Final = (23, 30)
_RENAMED: Final = (24, 32)
"""Positions in each cycle of 40 routers, after the first twelve, so that small fleets have none."""

_GROUPS_RENAMED: Final = (3, 1)
_SMALL_FLEET: Final = 12
"""How many groups there are per renamed one, and the first renamed one. Small fleets have none."""

_EVERY: Final = 4 * DAY

STAYS, CHANGES_ACCOUNT, CHANGES_GROUP, IS_RENAMED = range(4)
BELONGING_KINDS: Final = ("stays", "changes account", "changes group", "is renamed")


@dataclass(frozen=True)
class Belonging:
    """The first and the alternate account and group, one array element per router.

    `moves` are made by clients, oldest first: a router, an instant, and its account from then on.
    """

    draws: Draws
    kind: Ints
    account: Ints
    other_account: Ints
    group: Ints
    other_group: Ints
    moves: list[tuple[int, int, int]] = field(default_factory=list)

    def account_at(self, router: Ints, instant: Ints) -> Ints:
        """Return the account row of routers at instants."""
        changed = self._is_changed(router, instant) & (self.kind[router] == CHANGES_ACCOUNT)
        own = np.where(changed, self.other_account[router], self.account[router])
        return self._moved(own, router, instant, in_group=False)

    def group_at(self, router: Ints, instant: Ints) -> Ints:
        """Return the group row of routers at instants; -1 means no group.

        A group belongs to an account, so a router that changes its account also changes its group.
        """
        changed = self._is_changed(router, instant) & (self.kind[router] != IS_RENAMED)
        own = np.where(changed, self.other_group[router], self.group[router])
        return self._moved(own, router, instant, in_group=True)

    def _moved(self, own: Ints, router: Ints, instant: Ints, *, in_group: bool) -> Ints:
        """Return the account or group rows of routers, after moves by clients: to no group."""
        for moved, at, account in self.moves:
            own = np.where((router == moved) & (instant >= at), -1 if in_group else account, own)
        return own

    def is_renamed(self, router: Ints, instant: Ints) -> Flags:
        """Return which routers have their other name at instants."""
        changed = self._is_changed(router, instant)
        return np.asarray(changed & (self.kind[router] == IS_RENAMED))

    def changed_at(self, router: Ints, instant: Ints) -> Ints:
        """Return when the account, group or name of each router last changed, 0 if never."""
        phase = self._phase(router)
        last = (instant - phase) // _EVERY * _EVERY + phase
        return np.where(self.kind[router] != STAYS, last, 0)

    def changes(self, router: int, since: int, until: int) -> list[int]:
        """Return the instants in (since, until] at which a router's record changed."""
        if self.kind[router] == STAYS:
            return []
        phase = int(self._phase(np.array([router]))[0])
        first = ((since - phase) // _EVERY + 1) * _EVERY + phase
        return list(range(first, until + 1, _EVERY))

    def _is_changed(self, router: Ints, instant: Ints) -> Flags:
        number = (instant - self._phase(router)) // _EVERY
        return np.asarray((self.kind[router] != STAYS) & (number % 2 == 1))

    def _phase(self, router: Ints) -> Ints:
        phase = self.draws.unit("belonging-phase", router) * _EVERY
        return np.asarray(phase).astype(np.int64)

    def is_group_renamed(self, group: Ints, instant: Ints) -> Flags:
        """Return which groups have their other name at instants."""
        phase = (self.draws.unit("group-name-phase", group) * _EVERY).astype(np.int64)
        renamed = one_in(group, *_GROUPS_RENAMED) & (len(self.kind) > _SMALL_FLEET)
        return np.asarray(renamed & ((instant - phase) // _EVERY % 2 == 1))


def assign_kinds(router: Ints) -> Ints:
    """Return the kind of change of each router's record, by router number."""
    position = router % _CYCLE
    kinds = np.full(len(router), STAYS)
    kinds[np.isin(position, _CHANGING_ACCOUNT)] = CHANGES_ACCOUNT
    kinds[np.isin(position, _CHANGING_GROUP)] = CHANGES_GROUP
    kinds[np.isin(position, _RENAMED)] = IS_RENAMED
    return kinds
