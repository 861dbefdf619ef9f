"""One simulated world: a fleet, its seed, and when its history begins."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fleetsim.blocks import BlockCache
from fleetsim.draws import Draws
from fleetsim.fleet import SimulatedFleet, build_fleet
from fleetsim.identifiers import Identifiers
from fleetsim.organisation import Person, people
from fleetsim.units import DAY, Ints
from fleetsim.world import batteries
from fleetsim.world.batteries import Ageing
from fleetsim.world.plans import Planner
from fleetsim.world.running import RunningTotals, SettingChangePlanner


@dataclass(frozen=True)
class World:
    """Everything that happens is a function of these values and of time."""

    seed: int
    routers: int
    started_at: int
    clock_start: int
    has_flapping: bool = False
    """Whether the links of some wired sites flap."""
    has_tellings: bool = False
    """Whether alerts tell of outages in many orders."""
    has_roads: bool = False
    """Whether vehicles drive and report as people and receivers do."""

    @cached_property
    def draws(self) -> Draws:
        """Return the world's randomness."""
        return Draws(self.seed)

    @cached_property
    def fleet(self) -> SimulatedFleet:
        """Return the devices."""
        return build_fleet(self.draws, self.routers, self.clock_start, has_roads=self.has_roads)

    @cached_property
    def people(self) -> tuple[Person, ...]:
        """Return the users the world begins with."""
        return people(self.routers)

    @cached_property
    def ageing(self) -> Ageing:
        """Return how each router's battery ages."""
        return batteries.ageing(self.draws, self.fleet.hardware, self.started_at, self.clock_start)

    @cached_property
    def planner(self) -> Planner:
        """Return the planner of the routers' days."""
        return Planner(
            self.draws,
            self.fleet,
            self.ageing,
            self.started_at,
            has_flapping=self.has_flapping,
            has_tellings=self.has_tellings,
        )

    @cached_property
    def changes(self) -> SettingChangePlanner:
        """Return the planner of settings changes."""
        return SettingChangePlanner(self.draws, self.fleet, len(self.people), self.started_at)

    @cached_property
    def totals(self) -> RunningTotals:
        """Return the running totals of each router."""
        return RunningTotals(self.fleet, self.planner, self.changes, self.first_day)

    @cached_property
    def manager_ids(self) -> Identifiers:
        """Return the ids of the routers' configuration managers."""
        return Identifiers(self.draws, "configuration_managers", 1_500_029, 7)

    @cached_property
    def net_device_id(self) -> Ints:
        """Return the id of every interface by row; interfaces without a router come last."""
        return self.fleet.net_device_ids.of(np.arange(self.fleet.net_device_ids.size))

    @cached_property
    def cache(self) -> BlockCache:
        """Return the cache of generated days."""
        return BlockCache()

    @property
    def first_day(self) -> int:
        """Return the first service day in which anything can happen."""
        return self.started_at // DAY - 1
