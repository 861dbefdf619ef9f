"""The lists of v3: subscriptions, asset endpoints, the private cellular network, users."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from fleetsim import stamps
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


_CARRIERS: Final = ("Carrier North", "Carrier South")
_KINDS: Final = ("fqdn", "wildcard_fqdn", "ipsubnet")


class FurtherList(NamedTuple):
    """The number of items in a list, a reader of one by its number, and the fields to filter by."""

    items: int
    make: Callable[[View, int], Document]
    filters: tuple[str, ...] = ()


def _since(view: View, number: int) -> str:
    return stamps.to_datetime(view.world.clock_start - number * DAY).isoformat()


def _site(view: View, number: int) -> Document:
    attributes = {
        "name": f"site {number}",
        "created_at": _since(view, 30 * number),
        "updated_at": _since(view, number),
        "editable": True,
        "exchange_network": f"exchange-{number % 2 + 1}",
        "lan_as_dns": number % 2 == 0,
        "local_domain": f"site{number}.internal",
        "primary_dns": "10.0.0.53",
        "secondary_dns": None,
        "tags": ["depot"] if number % 3 else [],
    }
    network = {"exchange_network": ("exchange_networks", f"exchange-{number % 2 + 1}")}
    return item(view.origin, "exchange_sites", f"site-{number}", attributes, network)


def _resource(view: View, number: int) -> Document:
    kind = f"exchange_{_KINDS[number % len(_KINDS)]}_resources"
    attributes: Document = {"name": f"resource {number}", "tags": [], "protocols": None}
    site = {"exchange_site": ("exchange_sites", f"site-{number % 3 + 1}")}
    return item(view.origin, kind, f"resource-{number}", attributes, site)


def _digits(view: View, name: str, number: int, length: int) -> str:
    found = int(view.world.draws.bits(name, np.array([number]))[0]) % 10**length
    return f"{found:0{length}d}"


def _public_sim(view: View, number: int) -> Document:
    imei = _digits(view, "public-imei", number, 15)
    attributes = {
        "iccid": f"8901{_digits(view, 'public-sim', number, 15)}",
        "carrier": _CARRIERS[number % 2],
        "type": "esim" if number % 4 == 0 else "physical",
        "device_status": "activated" if number % 5 else "suspended",
        "is_licensed": number % 3 != 0,
        "assigned_imei": imei,
        "detected_imei": imei if number % 7 else None,
    }
    return item(view.origin, "public_sim_mgmt_assets", f"asset-{number}", attributes, {})


def _rate_plan(view: View, number: int) -> Document:
    carrier = _CARRIERS[number % 2]
    attributes = {"carrier": carrier, "name": f"{number} GB", "status": "active"}
    return item(view.origin, "public_sim_mgmt_rate_plans", f"plan-{number}", attributes, {})


def _authorization(view: View, number: int) -> Document:
    role = ("admin", "full_access_user", "read_only_user")[number % 3]
    related = {
        "user": ("users", str(30_000 + number)),
        "role": ("roles", role),
        "account": ("accounts", "10157"),
    }
    attributes = {"cascade": True, "role": role}
    return item(view.origin, "account_authorizations", f"auth-{number}", attributes, related)


def _regrade(view: View, number: int) -> Document:
    row = (number - 1) % view.world.routers
    hardware = int(view.world.fleet.hardware_id[row])
    attributes: dict[str, Any] = {
        "action_id": f"action-{number:04d}",
        "mac_address": mac_address(hardware, 0).replace(":", ""),
        "created_at": stamps.to_datetime(view.world.clock_start - number * HOUR).isoformat(),
        "action": "UPGRADE" if number % 2 else "DOWNGRADE",
        "subscription_type": "vehicle-advanced",
        "status": "COMPLETE" if number % 4 else "FAILED",
        "error_code": None if number % 4 else "NO_LICENSE_AVAILABLE",
    }
    return item(view.origin, "regrades", f"regrade-{number}", attributes, {})


FURTHER_LISTS: Final[dict[str, FurtherList]] = {
    "exchange_sites": FurtherList(4, _site, ("exchange_network", "name")),
    "exchange_resources": FurtherList(9, _resource, ("name",)),
    "public_sim_mgmt_assets": FurtherList(12, _public_sim, ("iccid", "carrier", "device_status")),
    "public_sim_mgmt_rate_plans": FurtherList(3, _rate_plan, ("carrier", "name", "status")),
    "account_authorizations": FurtherList(5, _authorization, ("role",)),
    "regrades": FurtherList(8, _regrade, ("action_id", "mac_address", "status")),
}


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
