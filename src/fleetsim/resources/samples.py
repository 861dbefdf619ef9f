"""net_device_usage_samples and net_device_signal_samples: one per interface and quarter hour."""

from collections.abc import Callable, Iterator

import numpy as np

from fleetsim import resource_columns as column
from fleetsim.blocks import Block, attributes, once
from fleetsim.definition import Resource, Series, SeriesRead
from fleetsim.fleet import LAN, MODEM_ONE, MODEM_TWO, SLOTS_PER_ROUTER, WIRED
from fleetsim.organisation import ROOT
from fleetsim.resource_columns import EXACT_IN, EXACT_RANGE, ResourceColumn, values
from fleetsim.timeuuids import order_key, tail_from_bits
from fleetsim.units import Flags, Ints, Reals
from fleetsim.view import View
from fleetsim.world import World
from fleetsim.world.grid import (
    PERIOD,
    PlanGrid,
    connected_since,
    is_connected,
    period_seconds,
    plan_grid,
    sample_time,
    seconds_since,
)
from fleetsim.world.radio import FIFTH, HIGH_BAND, Modems, Signal, signal
from fleetsim.world.traffic import DOWN_SHARE, carried

_UPTIME_LOOKBACK_DAYS = 9
Sampled = Callable[[World, Ints], Flags]


def sample_series(stream: str, sampled: Sampled) -> Series:
    """Return a series of one row per device and period; `sampled` says which devices report.

    Devices are net device rows. A device that moved reports from the bay it was in at the time.
    """

    def series(view: View, read: SeriesRead) -> Iterator[Block]:
        assert read.devices is not None, "these endpoints require their device filter"
        chosen = read.devices[sampled(view.world, read.devices)]
        chosen = chosen[has_visible_samples(view, chosen)]
        if len(chosen) == 0:
            return
        for numbers in read.periods(view, chosen, PERIOD):
            yield _block(view.world, stream, chosen, numbers)

    return series


def _block(world: World, stream: str, devices: Ints, numbers: Ints) -> Block:
    """Return the samples of devices in a run of periods, in order."""
    device = np.repeat(devices, len(numbers))
    number = np.tile(numbers, len(devices))
    time = sample_time(world.draws, device, number)
    bay = world.fleet.moves.bay_of(device, time)
    lone = world.fleet.moves.is_drawer(bay)
    router = np.where(lone, 0, bay // SLOTS_PER_ROUTER)
    grid = plan_grid(world.planner, router, int(time.min()), int(time.max()))
    taken = (time >= world.started_at) & ~grid.at(router, time).offline.holds(time) & ~lone
    taken &= world.fleet.registrations.holds(router, time)
    tail = tail_from_bits(world.draws.bits(f"{stream}/uuid", device, number))
    kept = np.flatnonzero(taken)
    order = kept[np.lexsort((order_key(tail[kept]), time[kept]))]
    return Block(
        {
            "time": time[order],
            "tail": tail[order],
            "device": device[order],
            "bay": bay[order],
            "router": router[order],
        }
    )


def _slot(block: Block) -> Ints:
    return np.asarray(block["bay"] % SLOTS_PER_ROUTER)


@once
def _grid(view: View, block: Block) -> PlanGrid:
    """Return the plans for a block, including the past days that an uptime may span."""
    since, until = int(block["time"].min()), int(block["time"].max())
    return plan_grid(view.world.planner, block["router"], since, until, _UPTIME_LOOKBACK_DAYS)


@once
def _bytes(view: View, block: Block) -> Ints:
    """Return the bytes an interface carried in the period; one on standby carries a few."""
    grid = _grid(view, block)
    since = block["time"] - PERIOD
    start = np.maximum(since, view.world.fleet.arrived_at(block["device"], block["time"]))
    moved = carried(view.world.draws, grid, block["bay"], start, block["time"])
    moved += _carried_elsewhere(view.world, block["device"], since, start)
    idle = 400 + view.world.draws.below(900, "keepalive", block["device"], block["time"])
    connected = is_connected(view.world.fleet, grid, block["router"], _slot(block), block["time"])
    return np.where(moved > 0, moved, np.where(connected, idle, 0))


def _carried_elsewhere(world: World, device: Ints, since: Ints, until: Ints) -> Ints:
    """Return the bytes that devices carried in their earlier bay, if they moved in the period."""
    total = np.zeros(len(device), dtype=np.int64)
    before = world.fleet.moves.bay_of(device, until - 1)
    lone = world.fleet.moves.is_drawer(before)
    router = np.where(lone, 0, before // SLOTS_PER_ROUTER)
    was_there = ~lone & world.fleet.registrations.holds(router, until - 1)
    row = np.flatnonzero((until > since) & was_there)
    if len(row):
        start, end, router = since[row], until[row], router[row]
        grid = plan_grid(world.planner, router, int(start.min()), int(end.max()))
        total[row] = carried(world.draws, grid, before[row], start, end)
    return total


def _bytes_in(view: View, block: Block) -> Ints:
    return (_bytes(view, block) * DOWN_SHARE).astype(np.int64)


def _uptime(view: View, block: Block) -> Reals:
    """Return seconds since the interface connected; NaN while it is disconnected."""
    fleet, grid = view.world.fleet, _grid(view, block)
    router, slot, time = block["router"], _slot(block), block["time"]
    since = connected_since(view.world.draws, grid, router, slot, time)
    since = np.maximum(since, fleet.arrived_at(block["device"], time))
    connected = is_connected(fleet, grid, router, slot, time)
    return np.where(connected, seconds_since(since, time), np.nan)


def _period(view: View, block: Block) -> Reals:
    return period_seconds(view.world.draws, "usage", block["device"], block["time"])


@once
def _signal(view: View, block: Block) -> Signal:
    router, slot, time = block["router"], _slot(block), block["time"]
    fleet = view.world.fleet
    failed = _grid(view, block).at(router, time).outage.holds(time)
    failed = failed & (slot == fleet.primary[router])
    return signal(view.world.draws, fleet, Modems(router, slot, time, failed))


_measured = attributes(_signal)


def _fifth(name: str, more: float, of: float = FIFTH) -> Callable[[View, Block], Reals]:
    """Return a reader of what 5G modems measure beside LTE; for other modems it is NaN."""

    def read(view: View, block: Block) -> Reals:
        fleet = view.world.fleet
        modems = fleet.in_bay_of(fleet.hardware, block["device"])
        measured = np.round(_measured(name)(view, block) + more, 1)
        return np.where(view.world.draws.chance(of, "5g", modems), measured, np.nan)

    return read


def is_seen(view: View, device: Ints, scope: Flags, *, in_drawer: bool = False) -> Flags:
    """Return which net devices are now in a router in `scope`, which is indexed by row.

    Of those in no router it is `in_drawer`.
    """
    moves = view.world.fleet.moves
    bay = moves.bay_of(device, np.full(len(device), view.now))
    lone = moves.is_drawer(bay)
    return np.where(lone, in_drawer, scope[np.where(lone, 0, bay // SLOTS_PER_ROUTER)])


def has_visible_samples(view: View, device: Ints) -> Flags:
    """Return which net devices have samples that the caller sees.

    A modem that was put in a drawer keeps those it sent before; it belongs to the root account.
    """
    return is_seen(view, device, view.remembered, in_drawer=ROOT in view.accounts)


def wan_slots(world: World, device: Ints) -> Flags:
    """Return which net devices are WAN interfaces; an access point has no modem."""
    in_drawer = world.fleet.moves.is_drawer(device)
    slot = np.where(in_drawer, MODEM_ONE, device % SLOTS_PER_ROUTER)
    modem = (slot == MODEM_ONE) | (slot == MODEM_TWO)
    router = np.where(in_drawer, 0, device // SLOTS_PER_ROUTER)
    is_access_point = world.fleet.is_access_point[router] & ~in_drawer
    return np.asarray((slot != LAN) & ~(modem & is_access_point))


def modem_slots(world: World, device: Ints) -> Flags:
    """Return which net devices are modems."""
    in_drawer = world.fleet.moves.is_drawer(device)
    return np.asarray(wan_slots(world, device) & (in_drawer | (device % SLOTS_PER_ROUTER != WIRED)))


_TIMES: tuple[ResourceColumn, ...] = (
    column.time("created_at", values("time"), EXACT_RANGE, time_format="micros_z"),
    column.uuid("created_at_timeuuid", values("time"), EXACT_RANGE | {"in"}),
)
_NET_DEVICE = column.relation(
    "net_device",
    lambda v, b: v.world.fleet.net_device_ids.of(b["device"]),
    EXACT_IN,
    to="net_devices",
)
_UPTIME = column.real("uptime", _uptime)

USAGE_SAMPLES = Resource(
    name="net_device_usage_samples",
    series=sample_series("usage", wan_slots),
    device="net_device",
    per_device=True,
    one_of=("net_device", "net_device__in"),
    order_by=("created_at_timeuuid",),
    columns=(
        column.integer("bytes_in", _bytes_in),
        column.integer("bytes_out", lambda v, b: _bytes(v, b) - _bytes_in(v, b)),
        *_TIMES,
        _NET_DEVICE,
        column.real("period", _period),
        _UPTIME,
    ),
)

SIGNAL_SAMPLES = Resource(
    name="net_device_signal_samples",
    series=sample_series("signal", modem_slots),
    device="net_device",
    per_device=True,
    one_of=("net_device", "net_device__in"),
    order_by=("created_at_timeuuid",),
    columns=column.ordered(
        *_TIMES,
        _NET_DEVICE,
        _UPTIME,
        *column.nulls("cinr ecio"),
        *column.each(column.real, _measured, "rsrp rsrq rssi sinr"),
        column.real("dbm", _measured("rssi")),
        column.real("rssnr", _measured("sinr")),
        column.integer("signal_percent", _measured("percent")),
        column.real("rsrp5g", _fifth("rsrp", -4.0)),
        column.real("rsrp5g_highband", _fifth("rsrp", -9.0, of=HIGH_BAND)),
        column.real("rsrq5g", _fifth("rsrq", -1.0)),
        column.real("rsrq5g_highband", _fifth("rsrq", -2.0, of=HIGH_BAND)),
        column.real("sinr5g", _fifth("sinr", -2.0)),
        column.real("sinr5g_highband", _fifth("sinr", 3.0, of=HIGH_BAND)),
    ),
)
