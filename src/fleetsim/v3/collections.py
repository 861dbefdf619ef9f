"""The lists of v3: subscriptions, asset endpoints, the private cellular network, users.

Assignments say which subscription a device has, and from when until when. Each device but a few has
one; some have an add-on too. The add-on of one device in eight moves to the next device and back
every 36 hours. Every 60 hours, one device in eight is regraded: it gets a new assignment of another
type in place of its old one. The plain list of subscriptions does not have assignments: they are
found by `filter[id]` only (observed).
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from fleetsim import stamps
from fleetsim.definition import Collection
from fleetsim.organisation import PRODUCTS
from fleetsim.resources.alert_texts import mac_address
from fleetsim.resources.routers import serial_numbers
from fleetsim.units import DAY, HOUR
from fleetsim.v3.documents import TENANT, Document, item
from fleetsim.v3.users import user_ids, user_items
from fleetsim.view import View

SUBSCRIPTION_TYPES: Final = ("site-essentials", "vehicle-advanced", "wireless-wan", "security")
_ADD_ON: Final = "security"
_UNLICENSED: Final = (10, 11)
_ONE_IN: Final = 8
_MOVES_EVERY, _REGRADED_EVERY = 36 * HOUR, 60 * HOUR
_TERM: Final = 3 * 365 * DAY


def assignments_of(view: View, rows: Sequence[int]) -> list[list[Document]]:
    """Return the assignments that each of these routers has now."""
    return [[*_base(view, row), *_add_on(view, row)] for row in rows]


def assignments(view: View) -> list[Document]:
    """Return all assignments that a device has now."""
    rows: list[int] = np.flatnonzero(view.scope).tolist()
    return [one for found in assignments_of(view, rows) for one in found]


def _base(view: View, row: int) -> list[Document]:
    remainder, of = _UNLICENSED
    if row % of == remainder:
        return []
    installed = int(view.world.fleet.installed_at[row])
    grade, start = 0, installed
    if row % _ONE_IN == _ONE_IN // 2:
        grade = (view.now - installed) // _REGRADED_EVERY
        start += grade * _REGRADED_EVERY
    kind = SUBSCRIPTION_TYPES[(row + grade) % (len(SUBSCRIPTION_TYPES) - 1)]
    return [_assignment(view, row, grade, kind, start)]


def _add_on(view: View, row: int) -> list[Document]:
    """Return the add-on that a router has now: its own, or that of the router before it."""
    for owner in (row, row - 1):
        if owner < 0 or owner % _ONE_IN or not view.scope[owner]:
            continue
        installed = int(view.world.fleet.installed_at[owner])
        moved = (view.now - installed) // _MOVES_EVERY % 2
        next_sees = owner + 1 < len(view.scope) and bool(view.scope[owner + 1])
        if (owner + 1 if moved and next_sees else owner) == row:
            return [_assignment(view, owner, -1, _ADD_ON, installed)]
    return []


def _assignment(view: View, row: int, grade: int, kind: str, start: int) -> Document:
    end = int(view.world.fleet.installed_at[row]) + _TERM
    hardware = int(view.world.fleet.hardware_id[row])
    word = int(view.world.draws.bits("assignment", np.array([hardware * 1_000 + grade + 1]))[0])
    attributes: dict[str, Any] = {
        "name": f"{kind} {hardware}",
        "start_time": stamps.to_datetime(start // DAY * DAY).isoformat(),
        "end_time": stamps.to_datetime(end // DAY * DAY).isoformat(),
        "quantity": 1,
    }
    related = {"subscription_type": ("subscription_types", kind), "tenants": TENANT}
    return item(view.origin, "subscriptions", f"as-{word:016x}", attributes, related)


AREAS: Final = ("beta", "commerce")
"""Parts of a path that say nothing about the list."""

_SIMS = 24
_RADIOS = 6


def _count(number: int) -> Callable[[View], Sequence[int]]:
    return lambda _view: range(1, number + 1)


def _subscription(view: View, number: int) -> Document:
    """Return a subscription; it has no status (observed)."""
    kind = SUBSCRIPTION_TYPES[(number - 1) % len(SUBSCRIPTION_TYPES)]
    start = view.world.clock_start - (number * 83 % 700) * DAY
    attributes = {
        "name": f"{kind} {number}",
        "start_time": _day(start),
        "end_time": _day(start + 3 * 365 * DAY),
        "quantity": max(view.world.routers // 4, 1),
    }
    related = {"subscription_type": ("subscription_types", kind), "tenants": TENANT}
    return item(view.origin, "subscriptions", f"sub-{number:04d}", attributes, related)


def _day(instant: int) -> str:
    return stamps.to_datetime(instant // DAY * DAY).isoformat()


def _assets(view: View) -> Sequence[int]:
    found: list[int] = np.flatnonzero(view.scope).tolist()
    return found


def asset_items(view: View, rows: Sequence[int]) -> list[Document]:
    """Return asset endpoints; ids are not router ids, and MACs have no separators (observed)."""
    router = np.array(rows, dtype=np.int64)
    fleet = view.world.fleet
    numbers = view.world.draws.bits("asset", fleet.hardware[router]).tolist()
    series = [PRODUCTS[product].series for product in fleet.product[router].tolist()]
    serials = serial_numbers(view, router)
    macs = [
        mac_address(number, 0).replace(":", "") for number in fleet.hardware_id[router].tolist()
    ]
    assigned = [[one["id"] for one in found] for found in assignments_of(view, rows)]
    return [
        item(
            view.origin,
            "asset_endpoints",
            f"ae-{number:016x}",
            {
                "mac_address": mac,
                "serial_number": serial,
                "hardware_series": name,
                "subscription_ids": ids,
            },
            {"subscriptions": [("subscriptions", id_) for id_ in ids]},
        )
        for ids, number, mac, serial, name in zip(
            assigned, numbers, macs, serials, series, strict=True
        )
    ]


def _each(make: Callable[[View, int], Document]) -> Callable[[View, Sequence[int]], list[Document]]:
    return lambda view, numbers: [make(view, number) for number in numbers]


def _network(view: View, number: int) -> Document:
    attributes = {"name": f"yard-{number}", "mcc": "315", "mnc": "010", "state": "active"}
    return item(view.origin, "private_cellular_networks", f"net-{number}", attributes, {})


def _of_network(kind: str, prefix: str, **more: Any) -> Callable[[View, int], Document]:
    """Return a function that makes items belonging to one of the two networks."""

    def make(view: View, number: int) -> Document:
        attributes = {"name": f"{prefix}-{number}", **more}
        network = ("private_cellular_networks", f"net-{(number - 1) % 2 + 1}")
        return item(view.origin, kind, f"{prefix}-{number}", attributes, {"network": network})

    return make


def _sim(view: View, number: int) -> Document:
    digits = int(view.world.draws.bits("pcn-sim", number)) % 10**15
    attributes = {"iccid": f"8901{digits:015d}", "imsi": f"315010{digits % 10**9:09d}"}
    network = ("private_cellular_networks", f"net-{number % 2 + 1}")
    state = {"state": "assigned" if number % 3 else "available"}
    return item(
        view.origin,
        "private_cellular_sims",
        f"sim-{number}",
        {**attributes, **state},
        {"network": network},
    )


def _status(view: View, number: int) -> Document:
    attributes = {"is_online": number % 5 != 0, "transmitting": number % 5 != 0}
    radio = {"radio": ("private_cellular_radios", f"radio-{number}")}
    return item(
        view.origin, "private_cellular_radio_statuses", f"status-{number}", attributes, radio
    )


_GROUPS = "private_cellular_radio_groups"

COLLECTIONS: Final[dict[str, Collection]] = {
    "subscriptions": Collection(
        _count(6), _each(_subscription), ("name",), hidden=assignments, is_counted=True
    ),
    "asset_endpoints": Collection(
        _assets, asset_items, ("mac_address", "serial_number", "hardware_series"), is_counted=True
    ),
    "users": Collection(user_ids, user_items, ("email", "first_name", "last_name", "is_active")),
    "private_cellular_networks": Collection(_count(2), _each(_network), ("name", "state")),
    "private_cellular_cores": Collection(
        _count(2), _each(_of_network("private_cellular_cores", "core", state="online")), ("name",)
    ),
    "private_cellular_sims": Collection(_count(_SIMS), _each(_sim), ("iccid", "imsi", "state")),
    "private_cellular_radios": Collection(
        _count(_RADIOS),
        _each(_of_network("private_cellular_radios", "radio", tdd_mode="TDD Config 1")),
        ("name",),
    ),
    _GROUPS: Collection(_count(2), _each(_of_network(_GROUPS, "group")), ("name",)),
    "private_cellular_radio_statuses": Collection(_count(_RADIOS), _each(_status), ("is_online",)),
}
