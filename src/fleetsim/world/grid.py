"""Day plans of several routers over a range of service days, by instant, and sample times.

Interfaces report every quarter hour, each at its own offset, while online.
"""

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from fleetsim.draws import Draws
from fleetsim.fleet import SimulatedFleet
from fleetsim.units import DAY, MILLISECOND, SECOND, Flags, Ints, Reals
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


PERIOD = 900 * SECOND
_LATEST_PHASE = 879
_JITTER = 20 * SECOND
_WEEK = 7 * DAY


def sample_time(draws: Draws, device: Ints, number: Ints) -> Ints:
    """Return when a device takes its sample of a period (counted since 1970).

    Phase and jitter stay within the period, so samples of different periods never mix.
    """
    phase = draws.below(_LATEST_PHASE, "sample-phase", device) * SECOND
    return np.asarray(
        number * PERIOD + phase + draws.below(_JITTER, "sample-jitter", device, number)
    )


def last_number(draws: Draws, device: Ints, instant: Ints) -> Ints:
    """Return the period of a device's last sample at or before each instant."""
    number = instant // PERIOD
    return np.where(sample_time(draws, device, number) > instant, number - 1, number)


def last_sample(draws: Draws, planner: Planner, router: Ints, device: Ints, instant: Ints) -> Ints:
    """Return when each device took its last sample by an instant, while its router was on."""
    fleet = planner.fleet
    taken = sample_time(draws, device, last_number(draws, device, instant))
    for _ in range(2):  # a spell offline may begin right after that of another day
        spell = planner.plan(router, (taken - fleet.day_shift[router]) // DAY).offline
        before = last_number(draws, device, spell.start - 1)
        taken = np.where(spell.holds(taken), sample_time(draws, device, before), taken)
    return taken


def connected_since(draws: Draws, grid: PlanGrid, router: Ints, slot: Ints, instant: Ints) -> Ints:
    """Return when an interface last connected: after an outage or a spell offline, or weekly.

    Carriers renew every session once a week, so a grid of the last eight days is enough.
    """
    phase = (draws.unit("week-phase", router, slot) * _WEEK).astype(np.int64)
    renewed = (instant - phase) // _WEEK * _WEEK + phase
    offline = grid.last_end(router, instant, grid.plan.offline)
    outage = grid.last_end(router, instant, grid.plan.outage)
    outage = np.where(slot == grid.fleet.primary[router], outage, 0)
    return np.asarray(np.maximum(renewed, np.maximum(offline, outage)))


def seconds_since(since: Ints, instant: Ints) -> Reals:
    """Return the seconds from one instant to another, in milliseconds as the live service does."""
    return np.asarray((instant - since) // MILLISECOND / 1000)


def period_seconds(draws: Draws, stream: str, device: Ints, instant: Ints) -> Reals:
    """Return the length of the sample period that ends at each instant: up to a second more."""
    more = draws.below(1000, f"{stream}/period", device, instant)
    return np.asarray((PERIOD // MILLISECOND + more) / 1000)


def is_connected(
    fleet: SimulatedFleet, grid: PlanGrid, router: Ints, slot: Ints, instant: Ints
) -> Flags:
    """Return which interfaces have a connection: without an outage, and with a connected cable."""
    down = grid.at(router, instant).outage.holds(instant) & (slot == fleet.primary[router])
    unplugged = (slot == 0) & (fleet.primary[router] != 0)
    return np.asarray(~down & ~unplugged)
