"""Changes of settings: users change a router's settings now and then."""

from dataclasses import dataclass

import numpy as np

from fleetsim.draws import Draws
from fleetsim.fleet import SimulatedFleet
from fleetsim.units import DAY, NEVER, Ints
from fleetsim.world.spells import day_start

CHANGE_ODDS = 0.07
SELDOM_ODDS = 0.006
_SELDOM_ONE_IN = 8
SETTINGS = ("ssid", "dns_server", "wan_rule", "firewall_zone", "ca_print", "logging_level")


@dataclass(frozen=True)
class SettingChanges:
    """At most one change per router and service day; `at` is NEVER if there is none."""

    at: Ints
    person: Ints
    setting: Ints


@dataclass(frozen=True)
class SettingChangePlanner:
    """Draws changes made by `people` users, none before `started_at`."""

    draws: Draws
    fleet: SimulatedFleet
    people: int
    started_at: int

    def plan(self, router: Ints, day: Ints) -> SettingChanges:
        """Return the changes of routers on service days."""
        draws = self.draws
        at = day_start(day, self.fleet.day_shift[router])
        at = at + draws.between(0, DAY, "change-at", router, day).astype(np.int64)
        odds = np.where(router % _SELDOM_ONE_IN == 0, SELDOM_ODDS, CHANGE_ODDS)
        happens = draws.chance(odds, "change", router, day) & (at >= self.started_at)
        happens &= self.fleet.registrations.holds(router, at)
        return SettingChanges(
            at=np.where(happens, at, NEVER),
            person=draws.below(self.people, "change-person", router, day),
            setting=draws.below(len(SETTINGS), "change-setting", router, day),
        )
