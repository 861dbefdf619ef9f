"""locations and historical_locations: the present and past positions of each device."""

from collections.abc import Iterator

import numpy as np

from fleetsim import resource_columns as column
from fleetsim.blocks import Block, attributes, once
from fleetsim.definition import Resource, SeriesRead
from fleetsim.fleet import MODEM_ONE, MODEM_TWO
from fleetsim.organisation import CARRIER_IDS, CARRIERS
from fleetsim.resource_columns import EXACT, EXACT_IN, RANGE, Read, constant, values
from fleetsim.resources.accounts import account_ids
from fleetsim.resources.alert_texts import names_of
from fleetsim.resources.routers import has_location, location_ids
from fleetsim.timeuuids import order_key, tail_from_bits
from fleetsim.units import DAY, MINUTE, Ints, Words
from fleetsim.view import View
from fleetsim.world import World, fixes
from fleetsim.world.grid import plan_grid
from fleetsim.world.radio import Modems, Signal, signal_at

_DAYS_AT_ONCE = 3


def location_rows(view: View) -> Block:
    """Return one row per router that has a location."""
    seen = np.flatnonzero(view.scope)
    return Block({"row": seen[has_location(view, seen)]})


def last_fix_at(view: View, router: Ints) -> Ints:
    """Return when each location was last updated: the last fix, or when it was set by hand.

    A router also reports its location when it registers.
    """
    world, fleet = view.world, view.world.fleet
    taken = fixes.last_fix(world.draws, fleet, router, np.full(len(router), view.now))
    for _ in range(2):  # the fix before a spell offline may lie in an earlier spell
        spell = world.planner.plan(router, (taken - fleet.day_shift[router]) // DAY).offline
        hidden = spell.holds(taken)
        if hidden.any():
            who = router[hidden]
            taken[hidden] = fixes.last_fix(world.draws, fleet, who, spell.start[hidden] - 1)
    taken = np.maximum(taken, fleet.registrations.since[router])
    return np.where(fleet.has_gnss[router], taken, fleet.installed_at[router])


@once
def _updated_at(view: View, block: Block) -> Ints:
    return last_fix_at(view, block["row"])


@once
def _fix(view: View, block: Block) -> fixes.Fix:
    at = _updated_at(view, block)
    return fixes.measure(view.world.draws, view.world.fleet, block["row"], at)


_of_fix = attributes(_fix)


LOCATIONS = Resource(
    name="locations",
    rows=location_rows,
    order_by=("id", "updated_at"),
    expands=("account", "router"),
    columns=(
        column.relation("account", lambda v, b: account_ids(v, b["row"]), EXACT_IN, to="accounts"),
        column.real("accuracy", _of_fix("accuracy")),
        column.real("altitude_meters", _of_fix("altitude")),
        column.id_("id", lambda v, b: location_ids(v).of(b["row"]), EXACT_IN),
        column.real("latitude", _of_fix("latitude")),
        column.real("longitude", _of_fix("longitude")),
        column.text(
            "method",
            lambda v, b: np.where(v.world.fleet.has_gnss[b["row"]], "gnss", "manual"),
            EXACT_IN,
        ),
        column.address("resource_url", lambda v, b: location_ids(v).of(b["row"]), to="locations"),
        column.router(),
        column.time("updated_at", _updated_at, RANGE),
    ),
)


def _tracks(view: View, read: SeriesRead) -> Iterator[Block]:
    """Yield the fixes of routers, a few days at a time: one vehicle's fill a page."""
    assert read.devices is not None, "this endpoint requires its router filter"
    seen = view.remembered[read.devices] & view.world.fleet.has_gnss[read.devices]
    chosen = read.devices[seen]
    if len(chosen) == 0:
        return
    first = max(read.since, view.world.started_at) // DAY
    last = min(read.until - 1, view.now) // DAY + 1
    starts = range(first, last, _DAYS_AT_ONCE)
    for start in reversed(starts) if read.newest_first else starts:
        begin = max(start * DAY, read.since)
        end = min(start + _DAYS_AT_ONCE, last) * DAY
        yield _fixes_between(view.world, chosen, begin, min(end, read.until))


def _fixes_between(world: World, routers: Ints, since: int, until: int) -> Block:
    """Return the fixes taken in [since, until), in order."""
    router, time, tail = _taken(world, routers, since, until)
    kept = np.ones(len(time), dtype=bool)
    if len(time):
        grid = plan_grid(world.planner, router, int(time.min()), int(time.max()))
        kept = ~grid.at(router, time).offline.holds(time)
    kept = np.flatnonzero(kept & world.fleet.registrations.holds(router, time))
    order = kept[np.lexsort((order_key(tail[kept]), time[kept]))]
    return Block({"time": time[order], "tail": tail[order], "router": router[order]})


def _taken(world: World, routers: Ints, since: int, until: int) -> tuple[Ints, Ints, Words]:
    """Return router, time and tail of the fixes that receivers take if they are always on."""
    roads = world.fleet.roads
    if roads is None:
        return _taken_by_minute(world, routers, since, until)
    rides = world.fleet.is_vehicle[routers]
    parts = [_taken_by_minute(world, routers[~rides], since, until)]
    for row in routers[rides].tolist():
        time = roads.fixes_between(row, max(since, world.started_at), until)
        router = np.full(len(time), row)
        tail = tail_from_bits(world.draws.bits("fix/uuid", router, time))
        parts.append((router, time, tail))
    router, time, tail = (np.concatenate(column) for column in zip(*parts, strict=True))
    return router, time, tail


def _taken_by_minute(
    world: World, routers: Ints, since: int, until: int
) -> tuple[Ints, Ints, Words]:
    minutes = np.arange(since // MINUTE - 1, until // MINUTE + 1)
    router, minute = np.repeat(routers, len(minutes)), np.tile(minutes, len(routers))
    time = fixes.fix_time(world.draws, router, minute)
    kept = np.flatnonzero((time >= max(since, world.started_at)) & (time < until))
    router, minute, time = router[kept], minute[kept], time[kept]
    moving = fixes.measure(world.draws, world.fleet, router, time).moving
    kept = np.flatnonzero(fixes.is_taken(world.draws, world.fleet, router, minute, moving))
    router, minute, time = router[kept], minute[kept], time[kept]
    return router, time, tail_from_bits(world.draws.bits("fix/uuid", router, minute))


@once
def _track_fix(view: View, block: Block) -> fixes.Fix:
    return fixes.measure(view.world.draws, view.world.fleet, block["router"], block["time"])


@once
def _modem(view: View, block: Block) -> Ints:
    """Return the modem whose signal a fix contains: the modem in use."""
    fleet, router, time = view.world.fleet, block["router"], block["time"]
    grid = plan_grid(view.world.planner, router, int(time.min()), int(time.max()))
    plan = grid.at(router, time)
    over = (plan.failover_at <= time) & (time < plan.outage.end)
    return np.where(over & (fleet.primary[router] == MODEM_ONE), MODEM_TWO, MODEM_ONE)


@once
def _signal(view: View, block: Block) -> Signal:
    fix, router = _track_fix(view, block), block["router"]
    failed = np.zeros(len(block), dtype=bool)
    modems = Modems(router, _modem(view, block), block["time"], failed)
    draws, fleet = view.world.draws, view.world.fleet
    return signal_at(draws, fleet, modems, fix.latitude, fix.longitude)


_of_track, _of_signal = attributes(_track_fix), attributes(_signal)


def _carriers(names: tuple[str, ...]) -> Read:
    def read(view: View, block: Block) -> list[str]:
        carrier = view.world.fleet.carrier_of(block["router"], _modem(view, block), block["time"])
        return [names[number] for number in carrier.tolist()]

    return read


HISTORICAL_LOCATIONS = Resource(
    name="historical_locations",
    series=_tracks,
    device="router",
    per_device=True,
    ascending=True,
    one_of=("router",),
    columns=column.ordered(
        column.router("router", EXACT, hidden=True),
        *column.nulls("cinr ecio rfband_5g rsrp_5g rsrq_5g sinr_5g"),
        *column.each(column.real, _of_track, "accuracy altitude latitude longitude mph"),
        *column.each(column.real, _of_signal, "rsrp rsrq rssi sinr"),
        column.real("dbm", _of_signal("rssi")),
        column.integer("signal_percent", _of_signal("percent")),
        column.text("carrier_id", _carriers(CARRIER_IDS)),
        column.text("summary", _carriers(CARRIERS)),
        column.time("created_at", values("time"), frozenset({"gt", "lte"}), time_format="micros_z"),
        column.uuid("created_at_timeuuid", values("time"), frozenset({"gt"})),
        column.text(
            "net_device_name", lambda v, b: names_of(v, b["router"], _modem(v, b), b["time"])
        ),
        column.text("rfband", constant("Band 13")),
    ),
)
