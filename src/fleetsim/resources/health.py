"""net_device_health: the quality of each modem's cellular link."""

import numpy as np

from fleetsim import resource_columns as column
from fleetsim.blocks import Block
from fleetsim.definition import Resource
from fleetsim.resource_columns import ANY_ID, EXACT_IN
from fleetsim.resources.metrics import METRICS, metric_rows
from fleetsim.resources.samples import modem_slots
from fleetsim.units import Ints
from fleetsim.view import View

_GRADES = np.array(["poor", "fair", "good", "excellent"], dtype=object)
_BOUNDS = (30, 55, 80)


def _rows(view: View) -> Block:
    block = metric_rows(view)
    return block.take(np.flatnonzero(modem_slots(view.world, block["row"])))


def _score(view: View, block: Block) -> Ints:
    """Return 0 to 100: the strength of the newest signal."""
    return np.asarray(METRICS.by_name["signal_strength"].read(view, block))


def _ids(view: View, block: Block) -> Ints:
    return np.asarray(view.world.net_device_id[block["row"]])


NET_DEVICE_HEALTH = Resource(
    name="net_device_health",
    rows=_rows,
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
        column.id_("id", _ids, ANY_ID),
        column.relation("net_device", _ids, EXACT_IN, to="net_devices"),
        column.address("resource_url", _ids, to="net_device_health"),
    ),
)
