"""Where each modem really was, by which name and with which SIM card."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np

from fleetlake.simulator.blocks import Block
from fleetlake.simulator.facts import Fact, span
from fleetlake.simulator.moves import MOVE_KINDS
from fleetlake.simulator.resources.net_devices import NET_DEVICES
from fleetlake.simulator.resources.samples import modem_slots
from fleetlake.simulator.spelling import records
from fleetlake.simulator.units import NEVER
from fleetlake.simulator.view import View

_TOLD = ("router", "uid", "carrier", "iccid")


def interface_spans(view: View, until: int) -> Iterator[Fact]:
    """Yield each span of time in which a modem stayed in its bay, with its name and SIM card.

    `kind` says how it moves and `swaps_sim` whether its SIM card changes, now or at other times.
    """
    world = view.world
    moves = world.fleet.moves
    columns = {name: NET_DEVICES.by_name[name] for name in _TOLD}
    device = np.arange(world.fleet.net_device_ids.size)
    for row in device[modem_slots(world, device)].tolist():
        edges = [world.started_at, *moves.changes(row, world.started_at, until), NEVER]
        for start, end in pairwise(edges):
            then = replace(view, now=start)
            [told] = records(then, tuple(columns.values()), Block({"row": np.array([row])}))
            router = told.pop("router")
            yield {
                "net_device_id": int(world.net_device_id[row]),
                "router_id": None if router is None else int(router.rstrip("/").rpartition("/")[2]),
                **told,
                "kind": MOVE_KINDS[int(moves.kind[row])],
                "swaps_sim": bool(moves.swaps_sim[row]),
                **span(start, end, until),
            }
