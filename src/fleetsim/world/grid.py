"""Day plans of several routers over a range of service days, looked up by instant."""

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from fleetsim.fleet import SimulatedFleet
from fleetsim.units import DAY, Ints
from fleetsim.world.plans import DayPlan, Planner
from fleetsim.world.spells import Spells, service_day


@dataclass(frozen=True)
class PlanGrid:
    """Plans of shape (routers, days); `routers` is sorted and without repeats."""

    fleet: SimulatedFleet
    routers: Ints
    first_day: int
    plan: DayPlan

    def at(self, router: Ints, instant: Ints) -> DayPlan:
        """Return the plan of the service day that contains each instant."""
        row = np.searchsorted(self.routers, router)
        day = service_day(instant, self.fleet.day_shift[router]) - self.first_day

        def pick(values: Any) -> Any:
            if isinstance(values, Spells):
                return Spells(values.start[row, day], values.end[row, day])
            return values[row, day]

        return DayPlan(**{f.name: pick(getattr(self.plan, f.name)) for f in fields(DayPlan)})

    def last_end(self, router: Ints, instant: Ints, spells: Spells) -> Ints:
        """Return the latest end of a spell of the grid by each instant; 0 if there is none."""
        ends = np.where(spells.happens, spells.end, 0)
        latest = np.maximum.accumulate(ends, axis=1)
        row = np.searchsorted(self.routers, router)
        day = service_day(instant, self.fleet.day_shift[router]) - self.first_day
        today = ends[row, day]
        before = np.where(day > 0, latest[row, day - 1], 0)
        return np.where(today <= instant, np.maximum(today, before), before)


def plan_grid(
    planner: Planner, routers: Ints, since: int, until: int, lookback: int = 1
) -> PlanGrid:
    """Return the plans of routers over every service day of [since, until] and some before."""
    known = np.unique(routers)
    shift = planner.fleet.day_shift[known] if len(known) else np.zeros(1, dtype=np.int64)
    first = int((since - shift.max()) // DAY) - lookback
    last = int((until - shift.min()) // DAY)
    days = np.arange(first, last + 1)
    return PlanGrid(planner.fleet, known, first, planner.plan(known[:, None], days[None, :]))
