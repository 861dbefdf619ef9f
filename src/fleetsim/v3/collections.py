"""The lists of v3: subscriptions, asset endpoints, the private cellular network, users."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from fleetsim import stamps
from fleetsim.organisation import PRODUCTS
from fleetsim.resources.alert_texts import mac_address
from fleetsim.resources.routers import serial_numbers
from fleetsim.units import DAY
from fleetsim.v3.assignments import SUBSCRIPTION_TYPES, assignments, assignments_of
from fleetsim.v3.documents import TENANT, Document, item
from fleetsim.v3.further_lists import FURTHER_LISTS
from fleetsim.v3.users import user_ids, user_items
from fleetsim.view import View

_SIMS = 24
_RADIOS = 6


@dataclass(frozen=True)
class Collection:
    """One v3 list: its ids in order, a reader of items, and the fields that can be filtered.

    `hidden` reads items that only `filter[id]` finds. `is_counted` lists say how many items and
    pages they have (observed of some).
    """

    ids: Callable[[View], Sequence[int]]
    items: Callable[[View, Sequence[int]], list[Document]]
    filters: tuple[str, ...] = ()
    hidden: Callable[[View], list[Document]] | None = None
    is_counted: bool = False

    def everything(self, view: View) -> list[Document]:
        """Return every item."""
        return self.items(view, self.ids(view))

    def numbered(self, view: View, *, with_hidden: bool) -> list[tuple[int, Document]]:
        """Return every item with its number; hidden ones come last."""
        ids = self.ids(view)
        found = list(zip(ids, self.items(view, ids), strict=True))
        if with_hidden and self.hidden:
            found += enumerate(self.hidden(view), max(ids, default=0) + 1)
        return found


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
    **{
        name: Collection(_count(further.items), _each(further.make), further.filters)
        for name, further in FURTHER_LISTS.items()
    },
}
