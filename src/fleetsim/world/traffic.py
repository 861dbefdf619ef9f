"""Bytes: each router's demand by quarter hour, and which WAN interface carries it.

Demand is constant within each aligned quarter hour. The primary carries it except in an outage;
the backup carries it from the failover to the end of the outage. So the samples of a router's
interfaces add up to its demand, and those of a backup to the failover's `data_usage`.
"""

import numpy as np

from fleetsim.draws import Draws
from fleetsim.fleet import SLOTS_PER_ROUTER, WIRED, SimulatedFleet
from fleetsim.units import DAY, HOUR, SECOND, Ints, Reals
from fleetsim.world.grid import PlanGrid
from fleetsim.world.plans import DayPlan
from fleetsim.world.spells import is_weekend

QUARTER = 900 * SECOND
DOWN_SHARE = 0.86
_LONGEST_OUTAGE_QUARTERS = 82


def demand(draws: Draws, fleet: SimulatedFleet, router: Ints, quarter: Ints) -> Reals:
    """Return a router's bytes per second in a quarter hour (counted since 1970)."""
    local = quarter * QUARTER + fleet.utc_offset[router]
    hour = (local % DAY) / HOUR
    weekend = is_weekend(local // DAY)
    busy = np.exp(-(((hour - 13.0) / 4.0) ** 2)) * np.where(weekend, 0.45, 1.0)
    scale = 2500.0 * np.exp(0.8 * draws.normal("demand-scale", fleet.site[router]))
    noise = np.exp(0.35 * draws.normal("demand", router, quarter))
    return np.asarray(scale * (0.12 + busy) * noise)


def carried(draws: Draws, grid: PlanGrid, bay: Ints, start: Ints, instant: Ints) -> Ints:
    """Return the bytes carried in each bay in [start, instant), a quarter hour at most."""
    fleet = grid.fleet
    router, slot = np.divmod(bay, SLOTS_PER_ROUTER)
    quarter = instant // QUARTER
    border = np.maximum(quarter * QUARTER, start)
    total = np.zeros(np.shape(instant))
    for begin, end, number in ((start, border, quarter - 1), (border, instant, quarter)):
        rate = demand(draws, fleet, router, number)
        total += rate * _carrying(grid, router, slot, begin, end) / SECOND
    return np.rint(total).astype(np.int64)


def _carrying(grid: PlanGrid, router: Ints, slot: Ints, start: Ints, end: Ints) -> Ints:
    """Return for how many microseconds of [start, end) an interface carries the traffic.

    The interval may span two service days; each spell belongs to one of them.
    """
    fleet = grid.fleet
    first, last = grid.at(router, start), grid.at(router, end)
    two_days = first.outage.start != last.outage.start
    down = first.outage.overlap(start, end)
    down = down + np.where(two_days, last.outage.overlap(start, end), 0)
    off = first.offline.overlap(start, end)
    off = off + np.where(
        first.offline.start != last.offline.start, last.offline.overlap(start, end), 0
    )
    over = _over(first, start, end)
    again = _over_again(first, start, end)
    over = over + np.where(two_days, _over(last, start, end), 0)
    again = again + np.where(two_days, _over_again(last, start, end), 0)
    on_primary = np.where(slot == fleet.primary[router], end - start - down - off, 0)
    on_primary = np.maximum(on_primary, 0)
    wired = fleet.primary[router] == WIRED
    on_other = np.where(wired & (slot == fleet.other_backup[router]), again, on_primary)
    return np.asarray(np.where(slot == fleet.backup[router], over, on_other))


def _over(plan: DayPlan, start: Ints, end: Ints) -> Ints:
    """Return the part of [start, end) in which the backup carries the traffic."""
    until = np.minimum(plan.outage.end, plan.second_failover_at)
    return _after_failover(plan.failover_at, until, start, end)


def _over_again(plan: DayPlan, start: Ints, end: Ints) -> Ints:
    """Return the part of [start, end) in which the backup has failed too."""
    return _after_failover(plan.second_failover_at, plan.outage.end, start, end)


def _after_failover(failover_at: Ints, outage_end: Ints, start: Ints, end: Ints) -> Ints:
    """Return the part of [start, end) between a failover and the end of its outage."""
    common = np.minimum(outage_end, end) - np.maximum(failover_at, start)
    return np.asarray(np.maximum(common, 0))


def carried_between(
    draws: Draws, fleet: SimulatedFleet, router: Ints, start: Ints, end: Ints
) -> Ints:
    """Return the bytes of demand in [start, end) of each router, at most 20 hours long."""
    quarter = start[:, None] // QUARTER + np.arange(_LONGEST_OUTAGE_QUARTERS)
    overlap = np.minimum(end[:, None], (quarter + 1) * QUARTER) - np.maximum(
        start[:, None], quarter * QUARTER
    )
    rate = demand(draws, fleet, router[:, None], quarter)
    total: Reals = (rate * np.maximum(overlap, 0)).sum(axis=1) / SECOND
    return np.rint(total).astype(np.int64)
