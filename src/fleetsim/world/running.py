"""Running totals: the part of a router's state that depends on its entire past."""

from dataclasses import dataclass, field

import numpy as np

from fleetsim.draws import Draws
from fleetsim.fleet import SimulatedFleet
from fleetsim.units import DAY, NEVER, Ints
from fleetsim.world.plans import Planner
from fleetsim.world.spells import Spells, day_start

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


@dataclass(frozen=True)
class Totals:
    """The last change of state of each router, and the number and time of settings changes."""

    state_changed_at: Ints
    settings_changed: Ints
    settings_changed_at: Ints


@dataclass
class RunningTotals:
    """Totals over all service days before a given one; each day is added once."""

    fleet: SimulatedFleet
    planner: Planner
    changes: SettingChangePlanner
    first_day: int
    _day: int = field(init=False)
    _kept: dict[int, Totals] = field(init=False)

    def __post_init__(self) -> None:
        self._day = self.first_day
        nothing = np.zeros(self.fleet.size, dtype=np.int64)
        start = np.maximum(self.fleet.installed_at, 0)
        self._kept = {self.first_day: Totals(start, nothing, start)}

    def before(self, day: int) -> Totals:
        """Return the totals of all service days before one."""
        day = max(day, self.first_day)
        while self._day < day:
            everyone = np.arange(self.fleet.size, dtype=np.int64)
            kept = self._kept[self._day]
            self._kept[self._day + 1] = self.add(kept, everyone, self._day, NEVER - 1)
            self._day += 1
        return self._kept[day]

    def add(self, totals: Totals, router: Ints, day: int, until: int) -> Totals:
        """Return the totals of some routers plus what happened on one more day by `until`."""
        when = np.full(len(router), day, dtype=np.int64)
        offline = self.planner.plan(router, when).offline
        change = self.changes.plan(router, when)
        happened = change.at <= until
        return Totals(
            state_changed_at=np.maximum(totals.state_changed_at, _last_turn(offline, until)),
            settings_changed=totals.settings_changed + happened,
            settings_changed_at=np.where(happened, change.at, totals.settings_changed_at),
        )

    def now(self, router: Ints, instant: int) -> Totals:
        """Return the totals of some routers at an instant."""
        today = instant // DAY
        kept = self.before(today - 1)
        first = max(today - 1, self.first_day)
        totals = Totals(
            kept.state_changed_at[router],
            kept.settings_changed[router],
            kept.settings_changed_at[router],
        )
        for day in range(first, today + 1):
            totals = self.add(totals, router, day, instant)
        return totals


def _last_turn(spell: Spells, until: int) -> Ints:
    """Return when a spell last began or ended by an instant; 0 if it has done neither."""
    began = np.where(spell.start <= until, spell.start, 0)
    return np.where(spell.end <= until, spell.end, began)
