"""Ground truth about where each modem and router was, and about its name there."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np

from fleetsim.belonging import BELONGING_KINDS
from fleetsim.blocks import Block
from fleetsim.facts import Fact, span, when
from fleetsim.fleet import SLOTS_PER_ROUTER
from fleetsim.identifiers import group_ids
from fleetsim.moves import MOVE_KINDS
from fleetsim.organisation import ACCOUNTS
from fleetsim.registrations import REGISTRATION_KINDS
from fleetsim.rendering import records
from fleetsim.resources.net_devices import NET_DEVICES
from fleetsim.resources.routers import names
from fleetsim.resources.samples import modem_slots
from fleetsim.units import NEVER, NULL
from fleetsim.view import View
from fleetsim.world import World

_OF_MODEMS = tuple(NET_DEVICES.by_name[n] for n in ("router", "uid", "carrier", "iccid"))


def interface_spans(view: View, until: int) -> Iterator[Fact]:
    """Yield each period in which a modem stayed in its bay, with its name and SIM card.

    `kind` is how the modem moves, or why its router is registered again. `swaps_sim` is true if its
    SIM card ever changes.
    """
    world = view.world
    moves = world.fleet.moves
    device = np.arange(world.fleet.net_device_ids.size)
    for row in device[modem_slots(world, device)].tolist():
        home = -1 if row >= moves.in_routers else row // SLOTS_PER_ROUTER
        first, last = _registered(world, home)
        edges = [first, *moves.changes(row, world.started_at, until), last]
        for start, end in pairwise(edges if first <= until else []):
            then = replace(view, now=start)
            [names_then] = records(then, _OF_MODEMS, Block({"row": np.array([row])}))
            router = names_then.pop("router")
            yield {
                "net_device_id": int(world.net_device_id[row]),
                "router_id": None if router is None else int(router.rstrip("/").rpartition("/")[2]),
                **names_then,
                "kind": _registration_kind(world, home) or MOVE_KINDS[int(moves.kind[row])],
                "swaps_sim": bool(moves.swaps_sim[row]),
                **span(start, end, until),
            }


def _registered(world: World, row: int) -> tuple[int, int]:
    """Return the period in which a router was registered; for a drawer (-1), all time."""
    registrations = world.fleet.registrations
    if row < 0:
        return world.started_at, NEVER
    return max(world.started_at, int(registrations.since[row])), int(registrations.until[row])


def _registration_kind(world: World, row: int) -> str:
    """Return why a router is registered again, or another one after it; "" if neither."""
    kind = 0 if row < 0 else int(world.fleet.registrations.rows.kind[row])
    return REGISTRATION_KINDS[kind]


def registrations(view: View, until: int) -> Iterator[Fact]:
    """Yield each router that was registered again, and the router unregistered before it."""
    fleet = view.world.fleet
    rows = fleet.registrations.rows
    since = fleet.registrations.since
    for row in np.flatnonzero((since > 0) & (since <= until)).tolist():
        yield {
            "router_id": int(fleet.router_id[row]),
            "replaces_router_id": int(fleet.router_id[rows.follows[row]]),
            "kind": REGISTRATION_KINDS[int(rows.kind[row])],
            "registered_at": when(int(since[row])),
        }


def router_spans(view: View, until: int) -> Iterator[Fact]:
    """Yield each period in which the account, group and name of a router stayed the same.

    The last period of an unregistered router ends, and the router after it has its own id.
    """
    world = view.world
    belonging = world.fleet.belonging
    registrations = world.fleet.registrations
    for row in np.flatnonzero(registrations.has_begun(until)).tolist():
        router = np.array([row])
        first, last = _registered(world, row)
        edges = [first, *belonging.changes(row, world.started_at, until), last]
        for start, end in pairwise(edges):
            at = np.array([start])
            group = int(group_ids(belonging.group_at(router, at))[0])
            yield {
                "router_id": int(world.fleet.router_id[row]),
                "account_id": ACCOUNTS[int(belonging.account_at(router, at)[0])].id,
                "group_id": None if group == NULL else group,
                "router_name": names(view, router, at)[0],
                "kind": _registration_kind(world, row) or BELONGING_KINDS[int(belonging.kind[row])],
                **span(start, end, until),
            }
