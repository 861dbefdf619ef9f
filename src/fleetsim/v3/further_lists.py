"""Lists of v3 that published clients read, with the members that were seen in live answers."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np

from fleetsim import stamps
from fleetsim.resources.alert_texts import mac_address
from fleetsim.units import DAY, HOUR
from fleetsim.v3.documents import Document, item
from fleetsim.view import View

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
