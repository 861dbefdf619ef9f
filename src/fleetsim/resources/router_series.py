"""router_state_samples, router_stream_usage_samples and router_logs: series of each router."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from fleetsim import resource_columns as column
from fleetsim.blocks import Block, once
from fleetsim.definition import Resource, Series, SeriesRead
from fleetsim.fleet import MODEM_ONE, MODEM_TWO, SLOTS_PER_ROUTER, WIRED
from fleetsim.resource_columns import EXACT_IN, EXACT_RANGE, ResourceColumn, constant, values
from fleetsim.timeuuids import order_key, tail_from_bits
from fleetsim.units import DAY, SECOND, Ints, Reals
from fleetsim.view import View
from fleetsim.world import World
from fleetsim.world.grid import (
    PERIOD,
    PlanGrid,
    connected_since,
    period_seconds,
    plan_grid,
    seconds_since,
)
from fleetsim.world.traffic import DOWN_SHARE, QUARTER, carried

_LOG_PERIOD = 1800 * SECOND
_DEVICE_OFFSET = 1 << 40
"""Added to row numbers, so that routers and interfaces draw different offsets."""


def _series(stream: str, period: int, *, when_offline: bool) -> Series:
    """Return a series of one row per router and period."""

    def series(view: View, read: SeriesRead) -> Iterator[Block]:
        assert read.devices is not None, "these endpoints require their router filter"
        chosen = read.devices[view.remembered[read.devices]]
        if len(chosen) == 0:
            return
        for numbers in read.periods(view, chosen, period):
            yield _block(view.world, stream, period, chosen, numbers, when_offline=when_offline)

    return series


def _block(
    world: World, stream: str, period: int, routers: Ints, numbers: Ints, *, when_offline: bool
) -> Block:
    """Return the rows of routers in a run of periods, in order."""
    router, number = np.repeat(routers, len(numbers)), np.tile(numbers, len(routers))
    offset = world.draws.unit(f"{stream}/offset", _DEVICE_OFFSET + router)
    jitter = world.draws.unit(f"{stream}/jitter", router, number)
    time = number * period + ((0.98 * offset + 0.02 * jitter) * period).astype(np.int64)
    kept = (time >= world.started_at) & world.fleet.registrations.holds(router, time)
    if not when_offline:
        grid = plan_grid(world.planner, router, int(time.min()), int(time.max()))
        kept &= ~grid.at(router, time).offline.holds(time)
    tail = tail_from_bits(world.draws.bits(f"{stream}/uuid", router, number))
    chosen = np.flatnonzero(kept)
    order = chosen[np.lexsort((order_key(tail[chosen]), time[chosen]))]
    return Block(
        {"time": time[order], "tail": tail[order], "router": router[order], "number": number[order]}
    )


@once
def _grid(view: View, block: Block) -> PlanGrid:
    since, until = int(block["time"].min()), int(block["time"].max())
    return plan_grid(view.world.planner, block["router"], since, until, 9)


def _states(view: View, block: Block) -> Any:
    off = _grid(view, block).at(block["router"], block["time"]).offline.holds(block["time"])
    return np.where(off, "offline", "online").astype(object)


@once
def _bytes(view: View, block: Block) -> Ints:
    """Return all bytes of a router in the period, over all WANs."""
    grid, router, time = _grid(view, block), block["router"], block["time"]
    total = np.zeros(len(block), dtype=np.int64)
    start = np.maximum(time - QUARTER, view.world.fleet.registrations.since[router])
    for slot in (WIRED, MODEM_ONE, MODEM_TWO):
        bay = router * SLOTS_PER_ROUTER + slot
        total += carried(view.world.draws, grid, bay, start, time)
    return total


def _bytes_in(view: View, block: Block) -> Ints:
    return (_bytes(view, block) * DOWN_SHARE).astype(np.int64)


def _uptime(view: View, block: Block) -> Reals:
    no_wan = np.full(len(block), -1)
    since = connected_since(
        view.world.draws, _grid(view, block), block["router"], no_wan, block["time"]
    )
    since = np.maximum(since, view.world.fleet.registrations.since[block["router"]])
    return seconds_since(since, block["time"])


_LEVELS = ("INFO", "INFO", "INFO", "WARNING", "ERROR")
_MESSAGES = (
    "WAN connection check passed",
    "DHCP lease renewed",
    "Modem signal report sent",
    "Weak signal on the active modem",
    "DNS request timed out",
)
_SOURCES = ("wan", "dhcp", "modem", "modem", "dns")


def _message(view: View, block: Block) -> Ints:
    return view.world.draws.below(len(_LEVELS), "log-message", block["router"], block["number"])


def _text(texts: tuple[str, ...]) -> Any:
    return lambda view, block: [texts[n] for n in _message(view, block).tolist()]


_TIMES: tuple[ResourceColumn, ...] = (
    column.time("created_at", values("time"), EXACT_RANGE),
    column.uuid("created_at_timeuuid", values("time"), EXACT_RANGE | {"in"}),
)


def _period(stream: str) -> ResourceColumn:
    """Return the column of a stream's sample periods."""

    def read(view: View, block: Block) -> Reals:
        device = _DEVICE_OFFSET + block["router"]
        return period_seconds(view.world.draws, stream, device, block["time"])

    return column.real("period", read)


_ROUTER = column.router("router")

STATE_SAMPLES = Resource(
    name="router_state_samples",
    series=_series("state", PERIOD, when_offline=True),
    device="router",
    per_device=True,
    one_of=("router", "router__in"),
    order_by=("created_at_timeuuid",),
    columns=(*_TIMES, _period("state"), _ROUTER, column.text("state", _states)),
)

STREAM_USAGE_SAMPLES = Resource(
    name="router_stream_usage_samples",
    series=_series("stream", PERIOD, when_offline=False),
    device="router",
    per_device=True,
    one_of=("router", "router__in"),
    order_by=("created_at_timeuuid",),
    columns=(
        column.integer("bytes_in", _bytes_in),
        column.integer("bytes_out", lambda v, b: _bytes(v, b) - _bytes_in(v, b)),
        *_TIMES,
        _period("stream"),
        _ROUTER,
        column.real("uptime", _uptime),
    ),
)

ROUTER_LOGS = Resource(
    name="router_logs",
    series=_series("log", _LOG_PERIOD, when_offline=False),
    device="router",
    per_device=True,
    one_of=("router",),
    order_by=("created_at_timeuuid",),
    columns=(
        *_TIMES,
        column.text("exception", constant(None)),
        column.text("level", _text(_LEVELS), EXACT_IN),
        column.text("message", _text(_MESSAGES)),
        column.time("reported_at", lambda _v, b: b["time"] - SECOND, time_format="seconds_offset"),
        _ROUTER,
        column.integer("sequence", lambda v, b: b["number"] - v.world.started_at // DAY * 48),
        column.text("source", _text(_SOURCES)),
    ),
)
