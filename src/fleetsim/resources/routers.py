"""routers: all routers and their present state."""

from collections.abc import Callable
from typing import Any

import numpy as np

from fleetsim import resource_columns as column
from fleetsim.blocks import Block, once
from fleetsim.definition import Resource
from fleetsim.identifiers import Identifiers, group_ids, one_in
from fleetsim.organisation import PRODUCTS
from fleetsim.places import REGIONS
from fleetsim.resource_columns import ANY_ID, EXACT, EXACT_IN, RANGE, Read, constant, of_fleet
from fleetsim.resources.accounts import PRODUCT_IDS, account_ids
from fleetsim.resources.alert_texts import mac_address
from fleetsim.units import DAY, NULL, SECOND, Flags, Ints
from fleetsim.view import View
from fleetsim.wire import ESCAPE, TAB
from fleetsim.world.running import Totals

_WITH_CONTROLS = (200, 157)
"""How many routers there are per router with such a description, and the first such router."""
_NEVER_ONLINE_ONE_IN = 60
_UNLOCATED = 0.05
_RENAMED = "-spare"
SYNC_TAKES = 600 * SECOND


def router_rows(view: View) -> Block:
    """Return the routers the caller may see."""
    return Block({"row": np.flatnonzero(view.scope)})


@once
def totals(view: View, block: Block) -> Totals:
    """Return the running totals of a block's routers."""
    return view.world.totals.now(block["row"], view.now)


def is_offline(view: View, router: Ints) -> Flags:
    """Return which routers are offline now."""
    planner, fleet = view.world.planner, view.world.fleet
    day = (view.now - fleet.day_shift[router]) // DAY
    return planner.plan(router, day).offline.holds(np.full(len(router), view.now))


def states(view: View, block: Block) -> Any:
    """Return online, offline, or initialized for the few that never connected."""
    row = block["row"]
    names = np.where(is_offline(view, row), "offline", "online").astype(object)
    names[row % _NEVER_ONLINE_ONE_IN == _NEVER_ONLINE_ONE_IN - 1] = "initialized"
    return names


def updated_at(view: View, block: Block) -> Ints:
    """Return when a router's record last changed: state, settings, name, account or group."""
    past = totals(view, block)
    changed = view.world.fleet.belonging.changed_at(block["row"], np.full(len(block), view.now))
    return np.maximum(changed, np.maximum(past.state_changed_at, past.settings_changed_at))


def location_ids(view: View) -> Identifiers:
    """Return the ids of the routers' locations."""
    return Identifiers(view.world.draws, "locations", 3_000_017, 5)


def has_location(view: View, router: Ints) -> Flags:
    """Return which routers have a location: all with GNSS, and most others, set by hand."""
    unlocated = view.world.draws.chance(_UNLOCATED, "unlocated", router)
    return np.asarray(view.world.fleet.has_gnss[router] | ~unlocated)


def names(view: View, router: Ints, instant: Ints) -> list[str]:
    """Return router names at instants: the product's series, the region and a number."""
    fleet = view.world.fleet
    renamed = fleet.belonging.is_renamed(router, instant)
    rows = zip(
        fleet.product[router].tolist(),
        fleet.region[router].tolist(),
        fleet.site[router].tolist(),
        np.where(renamed, _RENAMED, "").tolist(),
        strict=True,
    )
    return [f"{PRODUCTS[p].series}-{REGIONS[r].name}-{n:05d}{end}" for p, r, n, end in rows]


def _description(view: View, block: Block) -> list[str | None]:
    """Return descriptions; one in two hundred carries raw control characters."""
    found: list[str | None] = []
    for row in block["row"].tolist():
        region = REGIONS[int(view.world.fleet.region[row])].name
        if one_in(np.array(row), *_WITH_CONTROLS):
            found.append(f"site:{TAB}{region}{ESCAPE}[0m")
        else:
            found.append(None if row % 3 == 0 else f"Installed in {region}")
    return found


def serial_numbers(view: View, router: Ints) -> list[str]:
    """Return the serial numbers of routers."""
    word = view.world.draws.bits("serial", view.world.fleet.hardware[router]) >> np.uint64(16)
    return [f"FS{value:012X}" for value in word.tolist()]


def _address(view: View, block: Block) -> list[str]:
    word = (view.world.draws.bits("address", block["row"]) & np.uint64(0xFFFF)).tolist()
    return [
        f"100.{64 + row % 64}.{value >> 8}.{value & 255}"
        for row, value in zip(block["row"].tolist(), word, strict=True)
    ]


def is_suspended(row: Ints) -> Flags:
    """Return which routers' configuration is suspended, without what clients have written."""
    return one_in(row, 97, 13)


def _is_suspended_now(view: View, row: Ints) -> Flags:
    suspended = np.array(is_suspended(row))
    if writes := view.ledger.writes.get("configuration_managers"):
        for index, manager in enumerate(view.world.manager_ids.of(row).tolist()):
            written = writes.changed.get(manager, {})
            suspended[index] = written.get("suspended", suspended[index])
    return suspended


def _config_status(view: View, block: Block) -> Any:
    """Return synched, or pending within ten minutes of a change of settings."""
    fresh = totals(view, block).settings_changed_at > view.now - SYNC_TAKES
    status = np.where(fresh, "pending", "synched").astype(object)
    status[_is_suspended_now(view, block["row"])] = "suspended"
    return status


def firmware_ids(product: Ints, *, newest: bool | Flags = True) -> Ints:
    """Return the firmware of products: each has three versions, the third the newest."""
    return 9001 + product * 10 + np.where(newest, 2, 1)


def upgrade_pending(view: View, row: Ints) -> Flags:
    """Return which routers still run the version before the newest."""
    return view.world.draws.chance(0.3, "old-firmware", row)


def _actual_firmware(view: View, block: Block) -> Ints:
    return firmware_ids(_product(view, block), newest=~upgrade_pending(view, block["row"]))


def _groups(view: View, block: Block) -> Ints:
    now = np.full(len(block), view.now)
    return group_ids(view.world.fleet.belonging.group_at(block["row"], now))


def _macs(view: View, block: Block) -> list[str]:
    return [mac_address(i, 0) for i in view.world.fleet.hardware_id[block["row"]].tolist()]


def _by_row(value: Callable[[int], str | None]) -> Read:
    return lambda _view, block: [value(row) for row in block["row"].tolist()]


def _of_product(attribute: str) -> Read:
    return lambda v, b: [getattr(PRODUCTS[p], attribute) for p in _product(v, b).tolist()]


_product, _region = of_fleet("product"), of_fleet("region")

ROUTERS = Resource(
    name="routers",
    rows=router_rows,
    id_paging=True,
    order_by=("id", "name", "updated_at", "state_updated_at"),
    expands=(
        *("account", "group", "product", "last_known_location"),
        *("actual_firmware", "target_firmware", "configuration_manager"),
    ),
    columns=column.ordered(
        column.id_("id", of_fleet("router_id"), ANY_ID),
        column.address("resource_url", of_fleet("router_id"), to="routers"),
        column.relation("account", lambda v, b: account_ids(v, b["row"]), EXACT_IN, to="accounts"),
        column.relation("group", _groups, EXACT_IN | {"isnull"}, to="groups"),
        column.relation(
            "product", lambda v, b: PRODUCT_IDS[_product(v, b)], EXACT_IN, to="products"
        ),
        column.relation("actual_firmware", _actual_firmware, EXACT_IN, to="firmwares"),
        column.relation(
            "target_firmware", lambda v, b: firmware_ids(_product(v, b)), EXACT_IN, to="firmwares"
        ),
        column.relation(
            "configuration_manager",
            of_fleet("router_id"),
            to="routers",
            part="configuration_manager",
        ),
        column.relation("lans", of_fleet("router_id"), to="routers", part="lans"),
        column.relation(
            "last_known_location",
            lambda v, b: np.where(has_location(v, b["row"]), location_ids(v).of(b["row"]), NULL),
            to="locations",
        ),
        column.relation(
            "overlay_network_binding",
            lambda v, b: np.where(b["row"] % 3, v.world.fleet.router_id[b["row"]] + 7, NULL),
            to="overlay_network_bindings",
        ),
        column.text("asset_id", _by_row(lambda n: f"A-{n:06d}" if n % 2 else None), EXACT_IN),
        column.text("custom1", _by_row(lambda n: f"route-{n % 40}" if n % 4 else None), EXACT_IN),
        column.text("custom2", constant(None), EXACT_IN),
        column.text("description", _description, EXACT_IN),
        column.text("config_status", _config_status, EXACT_IN),
        column.text("device_type", _of_product("device_type"), EXACT_IN),
        column.text("full_product_name", _of_product("name"), EXACT_IN),
        column.text("ipv4_address", _address, EXACT_IN),
        column.text("locality", lambda v, b: [REGIONS[r].zone for r in _region(v, b).tolist()]),
        column.text("mac", _macs, EXACT_IN),
        column.text("name", lambda v, b: names(v, b["row"], np.full(len(b), v.now)), EXACT_IN),
        column.text("serial_number", lambda v, b: serial_numbers(v, b["row"]), EXACT_IN),
        column.text("state", states, EXACT_IN),
        column.flag("reboot_required", lambda _v, b: one_in(b["row"], 53, 11), EXACT),
        column.flag("upgrade_pending", lambda v, b: upgrade_pending(v, b["row"]), EXACT),
        column.time("created_at", of_fleet("installed_at"), RANGE, time_format="seconds_offset"),
        column.time("state_updated_at", lambda v, b: totals(v, b).state_changed_at, RANGE),
        column.time("updated_at", updated_at, RANGE),
    ),
)
