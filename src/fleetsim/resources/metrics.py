"""net_device_metrics: the newest signal and traffic of each WAN interface."""

from typing import Any

import numpy as np

from fleetsim.blocks import Block
from fleetsim.definition import Resource
from fleetsim.fleet import SLOTS_PER_ROUTER
from fleetsim.resource_columns import ANY_ID, EXACT_IN, RANGE, ColumnKind, Read, column, constant
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


def _newest(view: View, block: Block) -> Block:
    """Return the newest sample of each interface, as a block of the sample resources."""

    def make() -> Block:
        time = updated_at(view, block)
        bay = view.world.fleet.moves.bay_of(block["row"], time)
        router = bay // SLOTS_PER_ROUTER
        return Block({"time": time, "device": block["row"], "bay": bay, "router": router})

    return block.once("newest", make)


def _traffic(name: str) -> Read:
    def read(view: View, block: Block) -> Any:
        return USAGE_SAMPLES.by_name[name].read(view, _newest(view, block))

    return read


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
        column("bmask_applied", ColumnKind.JSON, constant(None)),
        column("bytes_in", ColumnKind.INTEGER, _traffic("bytes_in")),
        column("bytes_out", ColumnKind.INTEGER, _traffic("bytes_out")),
        column("cell_id", ColumnKind.TEXT, _cell("cell", 2**28)),
        column("cinr", ColumnKind.JSON, constant(None)),
        column("dbm", ColumnKind.REAL, _signal("dbm")),
        column("ecio", ColumnKind.JSON, constant(None)),
        column("id", ColumnKind.ID, _ids, ANY_ID),
        column("lac", ColumnKind.TEXT, _cell("lac", 2**16)),
        column("mcc", ColumnKind.TEXT, constant("310")),
        column("mnc", ColumnKind.TEXT, _cell("mnc", 999)),
        column("net_device", ColumnKind.RELATION, _ids, EXACT_IN, to="net_devices"),
        column("resource_url", ColumnKind.ADDRESS, _ids, to="net_device_metrics"),
        column("rsrp", ColumnKind.REAL, _signal("rsrp")),
        column("rsrp5g", ColumnKind.REAL, _signal("rsrp5g")),
        column("rsrp5g_highband", ColumnKind.REAL, _signal("rsrp5g_highband")),
        column("rsrq", ColumnKind.REAL, _signal("rsrq")),
        column("rsrq5g", ColumnKind.REAL, _signal("rsrq5g")),
        column("rsrq5g_highband", ColumnKind.REAL, _signal("rsrq5g_highband")),
        column("rssi", ColumnKind.REAL, _signal("rssi")),
        column("rssnr", ColumnKind.REAL, _signal("rssnr")),
        column("service_type", ColumnKind.TEXT, service_type, EXACT_IN),
        column("signal_strength", ColumnKind.INTEGER, _signal("signal_percent")),
        column("sinr", ColumnKind.REAL, _signal("sinr")),
        column("sinr5g", ColumnKind.REAL, _signal("sinr5g")),
        column("sinr5g_highband", ColumnKind.REAL, _signal("sinr5g_highband")),
        column("tac", ColumnKind.TEXT, _cell("tac", 2**16)),
        column("update_ts", ColumnKind.TIME, updated_at, RANGE, time_format="micros_z"),
    ),
)
