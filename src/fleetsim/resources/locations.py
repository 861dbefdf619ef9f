"""locations and historical_locations: the present and past positions of each device."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from fleetsim.blocks import Block
from fleetsim.definition import Resource
from fleetsim.fleet import MODEM_ONE, MODEM_TWO
from fleetsim.organisation import CARRIER_IDS, CARRIERS
from fleetsim.resource_columns import (
    EXACT,
    EXACT_IN,
    RANGE,
    ColumnKind,
    Read,
    column,
    constant,
    values,
)
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


def _updated_at(view: View, block: Block) -> Ints:
    return block.once("updated_at", lambda: last_fix_at(view, block["row"]))


def _fix(view: View, block: Block) -> fixes.Fix:
    def make() -> fixes.Fix:
        at = _updated_at(view, block)
        return fixes.measure(view.world.draws, view.world.fleet, block["row"], at)

    return block.once("fix", make)


def _of_fix(name: str) -> Read:
    def read(view: View, block: Block) -> Any:
        return getattr(_fix(view, block), name)

    return read


LOCATIONS = Resource(
    name="locations",
    rows=location_rows,
    order_by=("id", "updated_at"),
    expands=("account", "router"),
    columns=(
        column(
            "account",
            ColumnKind.RELATION,
            lambda v, b: account_ids(v, b["row"]),
            EXACT_IN,
            to="accounts",
        ),
        column("accuracy", ColumnKind.REAL, _of_fix("accuracy")),
        column("altitude_meters", ColumnKind.REAL, _of_fix("altitude")),
        column("id", ColumnKind.ID, lambda v, b: location_ids(v).of(b["row"]), EXACT_IN),
        column("latitude", ColumnKind.REAL, _of_fix("latitude")),
        column("longitude", ColumnKind.REAL, _of_fix("longitude")),
        column(
            "method",
            ColumnKind.TEXT,
            lambda v, b: np.where(v.world.fleet.has_gnss[b["row"]], "gnss", "manual"),
            EXACT_IN,
        ),
        column(
            "resource_url",
            ColumnKind.ADDRESS,
            lambda v, b: location_ids(v).of(b["row"]),
            to="locations",
        ),
        column(
            "router",
            ColumnKind.RELATION,
            lambda v, b: v.world.fleet.router_id[b["row"]],
            EXACT_IN,
            to="routers",
        ),
        column("updated_at", ColumnKind.TIME, _updated_at, RANGE),
    ),
)


def _tracks(
    view: View, devices: Ints | None, since: int, until: int, /, *, newest_first: bool, want: int
) -> Iterator[Block]:
    """Yield the fixes of routers, a few days at a time."""
    del want  # the days of one vehicle fill a page by themselves
    assert devices is not None, "this endpoint requires its router filter"
    chosen = devices[view.remembered[devices] & view.world.fleet.has_gnss[devices]]
    if len(chosen) == 0:
        return
    first = max(since, view.world.started_at) // DAY
    last = min(until - 1, view.now) // DAY + 1
    starts = range(first, last, _DAYS_AT_ONCE)
    for start in reversed(starts) if newest_first else starts:
        begin = max(start * DAY, since)
        end = min(start + _DAYS_AT_ONCE, last) * DAY
        yield _fixes_between(view.world, chosen, begin, min(end, until))


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


def _track_fix(view: View, block: Block) -> fixes.Fix:
    def make() -> fixes.Fix:
        return fixes.measure(view.world.draws, view.world.fleet, block["router"], block["time"])

    return block.once("fix", make)


def _modem(view: View, block: Block) -> Ints:
    """Return the modem whose signal a fix contains: the modem in use."""

    def make() -> Ints:
        fleet, router, time = view.world.fleet, block["router"], block["time"]
        grid = plan_grid(view.world.planner, router, int(time.min()), int(time.max()))
        plan = grid.at(router, time)
        over = (plan.failover_at <= time) & (time < plan.outage.end)
        return np.where(over & (fleet.primary[router] == MODEM_ONE), MODEM_TWO, MODEM_ONE)

    return block.once("modem", make)


def _signal(view: View, block: Block) -> Signal:
    def make() -> Signal:
        fix, router = _track_fix(view, block), block["router"]
        failed = np.zeros(len(block), dtype=bool)
        modems = Modems(router, _modem(view, block), block["time"], failed)
        draws, fleet = view.world.draws, view.world.fleet
        return signal_at(draws, fleet, modems, fix.latitude, fix.longitude)

    return block.once("signal", make)


def _of_track(name: str) -> Read:
    def read(view: View, block: Block) -> Any:
        return getattr(_track_fix(view, block), name)

    return read


def _of_signal(name: str) -> Read:
    def read(view: View, block: Block) -> Any:
        return getattr(_signal(view, block), name)

    return read


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
    columns=(
        column(
            "router",
            ColumnKind.RELATION,
            lambda v, b: v.world.fleet.router_id[b["router"]],
            EXACT,
            to="routers",
            hidden=True,
        ),
        column("accuracy", ColumnKind.REAL, _of_track("accuracy")),
        column("altitude", ColumnKind.REAL, _of_track("altitude")),
        column("carrier_id", ColumnKind.TEXT, _carriers(CARRIER_IDS)),
        column("cinr", ColumnKind.JSON, constant(None)),
        column(
            "created_at",
            ColumnKind.TIME,
            values("time"),
            frozenset({"gt", "lte"}),
            time_format="micros_z",
        ),
        column("created_at_timeuuid", ColumnKind.UUID, values("time"), frozenset({"gt"})),
        column("dbm", ColumnKind.REAL, _of_signal("rssi")),
        column("ecio", ColumnKind.JSON, constant(None)),
        column("latitude", ColumnKind.REAL, _of_track("latitude")),
        column("longitude", ColumnKind.REAL, _of_track("longitude")),
        column("mph", ColumnKind.REAL, _of_track("mph")),
        column(
            "net_device_name",
            ColumnKind.TEXT,
            lambda v, b: names_of(v, b["router"], _modem(v, b), b["time"]),
        ),
        column("rfband", ColumnKind.TEXT, constant("Band 13")),
        column("rfband_5g", ColumnKind.JSON, constant(None)),
        column("rsrp", ColumnKind.REAL, _of_signal("rsrp")),
        column("rsrp_5g", ColumnKind.JSON, constant(None)),
        column("rsrq", ColumnKind.REAL, _of_signal("rsrq")),
        column("rsrq_5g", ColumnKind.JSON, constant(None)),
        column("rssi", ColumnKind.REAL, _of_signal("rssi")),
        column("signal_percent", ColumnKind.INTEGER, _of_signal("percent")),
        column("sinr", ColumnKind.REAL, _of_signal("sinr")),
        column("sinr_5g", ColumnKind.JSON, constant(None)),
        column("summary", ColumnKind.TEXT, _carriers(CARRIERS)),
    ),
)
