"""Ground truth of where each modem and router was, and of its name there."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np

from fleetsim.belonging import BELONGING_KINDS
from fleetsim.blocks import Block
from fleetsim.facts import Fact, span
from fleetsim.identifiers import group_ids
from fleetsim.moves import MOVE_KINDS
from fleetsim.organisation import ACCOUNTS
from fleetsim.rendering import records
from fleetsim.resources.net_devices import NET_DEVICES
from fleetsim.resources.routers import names
from fleetsim.resources.samples import modem_slots
from fleetsim.units import NEVER, NULL
from fleetsim.view import View

_OF_MODEMS = tuple(NET_DEVICES.by_name[n] for n in ("router", "uid", "carrier", "iccid"))


def interface_spans(view: View, until: int) -> Iterator[Fact]:
    """Yield each period in which a modem stayed in its bay, with its name and SIM card.

    `kind` is how the modem moves, and `swaps_sim` whether its SIM card ever changes.
    """
    world = view.world
    moves = world.fleet.moves
    device = np.arange(world.fleet.net_device_ids.size)
    for row in device[modem_slots(world, device)].tolist():
        edges = [world.started_at, *moves.changes(row, world.started_at, until), NEVER]
        for start, end in pairwise(edges):
            then = replace(view, now=start)
            [names_then] = records(then, _OF_MODEMS, Block({"row": np.array([row])}))
            router = names_then.pop("router")
            yield {
                "net_device_id": int(world.net_device_id[row]),
                "router_id": None if router is None else int(router.rstrip("/").rpartition("/")[2]),
                **names_then,
                "kind": MOVE_KINDS[int(moves.kind[row])],
                "swaps_sim": bool(moves.swaps_sim[row]),
                **span(start, end, until),
            }


def router_spans(view: View, until: int) -> Iterator[Fact]:
    """Yield each period in which the account, group and name of a router stayed the same."""
    world = view.world
    belonging = world.fleet.belonging
    for row in range(world.routers):
        router = np.array([row])
        edges = [world.started_at, *belonging.changes(row, world.started_at, until), NEVER]
        for start, end in pairwise(edges):
            at = np.array([start])
            group = int(group_ids(belonging.group_at(router, at))[0])
            yield {
                "router_id": int(world.fleet.router_id[row]),
                "account_id": ACCOUNTS[int(belonging.account_at(router, at)[0])].id,
                "group_id": None if group == NULL else group,
                "router_name": names(view, router, at)[0],
                "kind": BELONGING_KINDS[int(belonging.kind[row])],
                **span(start, end, until),
            }
