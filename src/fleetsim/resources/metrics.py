"""net_device_metrics: the newest signal and traffic of each WAN interface."""

from typing import Any

import numpy as np

from fleetsim import resource_columns as column
from fleetsim.blocks import Block, once
from fleetsim.definition import Resource
from fleetsim.fleet import SLOTS_PER_ROUTER
from fleetsim.resource_columns import ANY_ID, EXACT_IN, RANGE, Read, constant
from fleetsim.resources.net_devices import is_modem, service_type, updated_at
from fleetsim.resources.samples import SIGNAL_SAMPLES, USAGE_SAMPLES, is_seen, wan_slots
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


def _ids(view: View, block: Block) -> Any:
    return view.world.net_device_id[block["row"]]


METRICS = Resource(
    name="net_device_metrics",
    rows=metric_rows,
    id_paging=True,
    order_by=("id", "update_ts"),
    expands=("net_device",),
    columns=(
        column.json("bmask_applied", constant(None)),
        column.integer("bytes_in", _traffic("bytes_in")),
        column.integer("bytes_out", _traffic("bytes_out")),
        column.text("cell_id", _cell("cell", 2**28)),
        column.json("cinr", constant(None)),
        column.real("dbm", _signal("dbm")),
        column.json("ecio", constant(None)),
        column.id_("id", _ids, ANY_ID),
        column.text("lac", _cell("lac", 2**16)),
        column.text("mcc", constant("310")),
        column.text("mnc", _cell("mnc", 999)),
        column.relation("net_device", _ids, EXACT_IN, to="net_devices"),
        column.address("resource_url", _ids, to="net_device_metrics"),
        column.real("rsrp", _signal("rsrp")),
        column.real("rsrp5g", _signal("rsrp5g")),
        column.real("rsrp5g_highband", _signal("rsrp5g_highband")),
        column.real("rsrq", _signal("rsrq")),
        column.real("rsrq5g", _signal("rsrq5g")),
        column.real("rsrq5g_highband", _signal("rsrq5g_highband")),
        column.real("rssi", _signal("rssi")),
        column.real("rssnr", _signal("rssnr")),
        column.text("service_type", service_type, EXACT_IN),
        column.integer("signal_strength", _signal("signal_percent")),
        column.real("sinr", _signal("sinr")),
        column.real("sinr5g", _signal("sinr5g")),
        column.real("sinr5g_highband", _signal("sinr5g_highband")),
        column.text("tac", _cell("tac", 2**16)),
        column.time("update_ts", updated_at, RANGE, time_format="micros_z"),
    ),
)
