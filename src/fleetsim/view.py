"""The view: what one caller sees at one instant."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from fleetsim.ledger import Ledger
from fleetsim.registrations import Registrations
from fleetsim.scenarios import PLAIN, Scenario
from fleetsim.units import Flags, Ints
from fleetsim.world import World


@dataclass(frozen=True, kw_only=True)
class View:
    """The world at `now` as one caller's account sees it, with URLs at `origin`.

    `owned` marks the routers of the caller's account tree, whether or not they are registered now.
    `accounts` holds the rows of its accounts. `settled` hides records that are not visible yet;
    truth sees everything. `scenario` sets the quirks of the responses. `reads` counts requests.
    """

    world: World
    ledger: Ledger
    now: int
    origin: str
    accounts: frozenset[int]
    owned: Flags
    settled: bool = True
    retention: bool = True
    scenario: Scenario = PLAIN
    sees_people: bool = True
    reads: int = 0

    @cached_property
    def scope(self) -> Flags:
        """Return which routers the caller sees now."""
        everyone = np.arange(len(self.owned))
        return self.owned & self._registrations.holds(everyone, self.now)

    @cached_property
    def remembered(self) -> Flags:
        """Return which routers have records: unregistering a router removes its records.

        Truth keeps them.
        """
        if self.retention:
            return self.scope
        return self.owned & self._registrations.has_begun(self.now)

    def is_remembered(self, router: Ints) -> Flags:
        """Return which routers, of any account, have records."""
        if self.retention:
            return self._registrations.holds(router, self.now)
        return np.asarray(self._registrations.has_begun(self.now)[router])

    @property
    def _registrations(self) -> Registrations:
        return self.world.fleet.registrations

    def whole(self) -> "View":
        """Return the view of truth: main host, nothing hidden by lag or retention."""
        plain = replace(PLAIN, shards=(), exaggerates=self.scenario.exaggerates)
        return replace(self, settled=False, retention=False, scenario=plain)
