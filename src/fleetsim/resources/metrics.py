"""net_device_metrics and net_device_health: the newest signal, traffic and health of interfaces."""

from typing import Any

import numpy as np

from fleetsim import resource_columns as column
from fleetsim.blocks import Block, once
from fleetsim.definition import Resource
from fleetsim.fleet import SLOTS_PER_ROUTER
from fleetsim.resource_columns import ANY_ID, EXACT_IN, RANGE, Read, constant
from fleetsim.resources.net_devices import is_modem, net_device_ids, service_type, updated_at
from fleetsim.resources.samples import (
    SIGNAL_SAMPLES,
    USAGE_SAMPLES,
    is_seen,
    modem_slots,
    wan_slots,
)
from fleetsim.units import NULL
from fleetsim.view import View
from fleetsim.world import World


def metric_rows(view: View) -> Block:
    """Return the WAN interfaces of the caller's routers; those of all routers are cached."""
    block = view.world.cache.get_fresh("metrics", lambda: _rows(view.world))
    return block.take(np.flatnonzero(is_seen(view, block["row"], view.scope)))


def _rows(world: World) -> Block:
    row = np.arange(world.fleet.net_device_ids.size)
    return Block({"row": row[wan_slots(world, row)]})


@once
def _newest(view: View, block: Block) -> Block:
    """Return the newest sample of each interface, as a block of the sample resources."""
    time = updated_at(view, block)
    bay = view.world.fleet.moves.bay_of(block["row"], time)
    router = bay // SLOTS_PER_ROUTER
    return Block({"time": time, "device": block["row"], "bay": bay, "router": router})


def _traffic(name: str) -> Read:
    return lambda view, block: USAGE_SAMPLES.by_name[name].read(view, _newest(view, block))


def _signal(name: str) -> Read:
    def read(view: View, block: Block) -> Any:
        raw = np.asarray(SIGNAL_SAMPLES.by_name[name].read(view, _newest(view, block)))
        nothing = NULL if raw.dtype == np.int64 else np.nan
        return np.where(is_modem(view, block), raw, nothing)

    return read


def _cell(stream: str, bound: int) -> Read:
    def read(view: View, block: Block) -> list[str | None]:
        numbers = view.world.draws.below(bound, stream, block["row"]).tolist()
        modem = is_modem(view, block).tolist()
        return [str(n) if yes else None for n, yes in zip(numbers, modem, strict=True)]

    return read


METRICS = Resource(
    name="net_device_metrics",
    rows=metric_rows,
    id_paging=True,
    order_by=("id", "update_ts"),
    expands=("net_device",),
    columns=column.ordered(
        *column.nulls("bmask_applied cinr ecio"),
        *column.each(column.integer, _traffic, "bytes_in bytes_out"),
        *column.each(column.real, _signal, "dbm rsrp rsrp5g rsrp5g_highband rsrq rsrq5g"),
        *column.each(column.real, _signal, "rsrq5g_highband rssi rssnr sinr sinr5g"),
        column.real("sinr5g_highband", _signal("sinr5g_highband")),
        column.integer("signal_strength", _signal("signal_percent")),
        column.text("cell_id", _cell("cell", 2**28)),
        column.text("lac", _cell("lac", 2**16)),
        column.text("tac", _cell("tac", 2**16)),
        column.text("mcc", constant("310")),
        column.text("mnc", _cell("mnc", 999)),
        column.id_("id", net_device_ids, ANY_ID),
        column.relation("net_device", net_device_ids, EXACT_IN, to="net_devices"),
        column.address("resource_url", net_device_ids, to="net_device_metrics"),
        column.text("service_type", service_type, EXACT_IN),
        column.time("update_ts", updated_at, RANGE, time_format="micros_z"),
    ),
)


_GRADES = np.array(["poor", "fair", "good", "excellent"], dtype=object)
_BOUNDS = (30, 55, 80)


def health_rows(view: View) -> Block:
    """Return the modems of the caller's routers."""
    block = metric_rows(view)
    return block.take(np.flatnonzero(modem_slots(view.world, block["row"])))


_score = METRICS.by_name["signal_strength"].read
"""Returns 0 to 100: the strength of the newest signal."""

NET_DEVICE_HEALTH = Resource(
    name="net_device_health",
    rows=health_rows,
    id_paging=True,
    order_by=("id",),
    expands=("net_device",),
    columns=(
        column.text(
            "cellular_health_category",
            lambda v, b: _GRADES[np.searchsorted(_BOUNDS, _score(v, b), side="right")],
            EXACT_IN,
        ),
        column.integer("cellular_health_score", _score),
        column.id_("id", net_device_ids, ANY_ID),
        column.relation("net_device", net_device_ids, EXACT_IN, to="net_devices"),
        column.address("resource_url", net_device_ids, to="net_device_health"),
    ),
)
