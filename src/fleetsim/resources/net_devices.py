"""net_devices: the interfaces of every router, and a few modems that belong to none."""

from typing import Any

import numpy as np

from fleetsim import resource_columns as column
from fleetsim.blocks import Block, once
from fleetsim.definition import Resource
from fleetsim.fleet import LAN, MODEM_ONE, SLOTS_PER_ROUTER, WIRED
from fleetsim.organisation import CARRIER_IDS, CARRIERS, ROOT
from fleetsim.resource_columns import ANY_ID, EXACT, EXACT_IN, RANGE, Read, ResourceColumn, constant
from fleetsim.resources.accounts import ACCOUNT_IDS, account_ids
from fleetsim.resources.alert_texts import device_macs, device_names
from fleetsim.resources.samples import wan_slots
from fleetsim.units import NULL, Flags, Ints, Reals
from fleetsim.view import View
from fleetsim.world import World
from fleetsim.world.grid import connected_since, is_connected, last_sample, plan_grid, seconds_since
from fleetsim.world.radio import FIFTH


def net_device_rows(view: View) -> Block:
    """Return the interfaces of the caller's routers; the root account also owns the orphans.

    The block of all interfaces is cached, because building a million takes longer than a page.
    """
    world = view.world
    block = world.cache.get_fresh("net_devices", lambda: _rows(world))
    if view.owned.all() and ROOT in view.accounts:
        number = world.fleet.registrations.number(view.now)
        there = ("net_devices", number)
        return world.cache.get_fresh(there, lambda: block.take(np.flatnonzero(_seen(view, block))))
    return block.take(np.flatnonzero(_seen(view, block)))


def _seen(view: View, block: Block) -> Flags:
    """Return which interfaces the caller sees."""
    orphan = is_orphan(view, block)
    return np.where(orphan, ROOT in view.accounts, view.scope[router_of(view, block)])


def _rows(world: World) -> Block:
    row = np.arange(world.fleet.net_device_ids.size)
    lan = ~world.fleet.moves.is_drawer(row) & (row % SLOTS_PER_ROUTER == LAN)
    return Block({"row": row[wan_slots(world, row) | lan]})


@once
def bay_of(view: View, block: Block) -> Ints:
    """Return the bay that each interface is in now."""
    return view.world.fleet.moves.bay_of(block["row"], np.full(len(block), view.now))


def is_orphan(view: View, block: Block) -> Flags:
    """Return which interfaces belong to no router."""
    return view.world.fleet.moves.is_drawer(bay_of(view, block))


def router_of(view: View, block: Block) -> Ints:
    """Return the router row of each interface; the first router's for an orphan."""
    return np.where(is_orphan(view, block), 0, bay_of(view, block) // SLOTS_PER_ROUTER)


def slot_of(view: View, block: Block) -> Ints:
    """Return each interface's slot; every orphan is a modem."""
    return np.where(is_orphan(view, block), MODEM_ONE, bay_of(view, block) % SLOTS_PER_ROUTER)


def is_modem(view: View, block: Block) -> Flags:
    """Return which interfaces are modems."""
    slot = slot_of(view, block)
    return np.asarray((slot != WIRED) & (slot != LAN))


@once
def _connected(view: View, block: Block) -> Flags:
    """Return which interfaces have a connection now."""
    router, slot = router_of(view, block), slot_of(view, block)
    now = np.full(len(block), view.now)
    grid = plan_grid(view.world.planner, router, view.now, view.now)
    up = is_connected(view.world.fleet, grid, router, slot, now)
    return up & ~grid.at(router, now).offline.holds(now) & ~is_orphan(view, block)


def _connection_state(view: View, block: Block) -> Any:
    plug = (slot_of(view, block) == WIRED) & (
        view.world.fleet.primary[router_of(view, block)] != WIRED
    )
    down = np.where(plug, "unplugged", "disconnected")
    return np.where(_connected(view, block), "connected", down).astype(object)


def _uptime(view: View, block: Block) -> Reals:
    """Return how many seconds each interface has been connected; NaN if it is disconnected."""
    router, slot = router_of(view, block), slot_of(view, block)
    grid = plan_grid(view.world.planner, router, view.now, view.now, 9)
    now = np.full(len(block), view.now)
    since = connected_since(view.world.draws, grid, router, slot, now)
    since = np.maximum(since, view.world.fleet.arrived_at(block["row"], now))
    return np.where(_connected(view, block), seconds_since(since, now), np.nan)


@once
def updated_at(view: View, block: Block) -> Ints:
    """Return when each interface last reported, or when it moved to its bay if that is later."""
    router, now = router_of(view, block), np.full(len(block), view.now)
    world = view.world
    taken = last_sample(world.draws, world.planner, router, block["row"], now)
    taken = np.where(is_orphan(view, block), world.started_at, taken)
    return np.maximum(taken, world.fleet.arrived_at(block["row"], now))


def net_device_ids(view: View, block: Block) -> Ints:
    """Return the ids of interfaces."""
    return np.asarray(view.world.net_device_id[block["row"]])


def _accounts(view: View, block: Block) -> Ints:
    own = account_ids(view, router_of(view, block))
    return np.where(is_orphan(view, block), ACCOUNT_IDS[ROOT], own)


def _hostnames(view: View, block: Block) -> list[str]:
    ids = view.world.fleet.router_id[router_of(view, block)].tolist()
    return [f"router-{number}" for number in ids]


def _routers(view: View, block: Block) -> Ints:
    return np.where(
        is_orphan(view, block), NULL, view.world.fleet.router_id[router_of(view, block)]
    )


def _names(view: View, block: Block) -> list[str]:
    return device_names(view, block["row"], bay_of(view, block))


def _digits(stream: str, length: int, prefix: str = "", *, of_sim: bool = False) -> Read:
    """Return a reader of invented numbers of modems or SIM cards; null for other interfaces."""
    width = length - len(prefix)

    def read(view: View, block: Block) -> list[str | None]:
        draws, fleet = view.world.draws, view.world.fleet
        row = fleet.in_bay_of(fleet.site if of_sim else fleet.hardware, block["row"])
        words = draws.bits(stream, row)
        if of_sim:
            sim = fleet.moves.sim_of(row, np.full(len(block), view.now))
            words = np.where(sim > 0, draws.bits(f"{stream}/later", row, sim), words)
        numbers = (words % np.uint64(10**width)).tolist()
        modem = is_modem(view, block).tolist()
        return [
            f"{prefix}{n:0{width}d}" if yes else None for n, yes in zip(numbers, modem, strict=True)
        ]

    return read


def _modem_only(text: Any, other: Any = None) -> Read:
    """Return a reader that gives modems one value and other interfaces another."""
    return lambda view, block: [text if yes else other for yes in is_modem(view, block).tolist()]


def _by_slot(wired: str, modem: str, lan: str) -> Read:
    texts = np.array([wired, modem, modem, lan], dtype=object)
    return lambda view, block: texts[slot_of(view, block)]


def _carriers(names: tuple[str, ...]) -> Read:
    def read(view: View, block: Block) -> list[str | None]:
        now = np.full(len(block), view.now)
        carrier = view.world.fleet.moves.carrier_of(block["row"], now)
        modem = is_modem(view, block).tolist()
        return [names[n] if yes else None for n, yes in zip(carrier.tolist(), modem, strict=True)]

    return read


def service_type(view: View, block: Block) -> list[str | None]:
    """Return LTE or 5G for modems."""
    fleet = view.world.fleet
    modems = fleet.in_bay_of(fleet.hardware, block["row"])
    fifth = view.world.draws.chance(FIFTH, "5g", modems).tolist()
    modem = is_modem(view, block).tolist()
    return [
        ("5G" if new else "LTE") if yes else None for new, yes in zip(fifth, modem, strict=True)
    ]


def _addresses(view: View, block: Block) -> list[str | None]:
    up, slot = _connected(view, block).tolist(), slot_of(view, block).tolist()
    rows = zip(block["row"].tolist(), slot, up, strict=True)
    return [
        "192.168.0.1"
        if s == LAN
        else f"10.{row >> 16 & 255}.{row >> 8 & 255}.{row & 255}"
        if yes
        else None
        for row, s, yes in rows
    ]


_EMPTY = (
    "bsid channel esn ipv6_address meid mn_ha_spi mn_ha_ss nai prlv rfchannel rxchannel ssid "
    "txchannel wimax_realm"
)
"""Fields of radio generations that this fleet does not use; null, as in the live service."""

_FIELDS: tuple[ResourceColumn, ...] = (
    column.relation("account", _accounts, EXACT_IN, to="accounts"),
    column.text("apn", _modem_only("fleet.apn.example")),
    column.text("carrier", _carriers(CARRIERS), EXACT_IN),
    column.text("carrier_id", _carriers(CARRIER_IDS)),
    column.text("connection_state", _connection_state, EXACT_IN),
    column.text("dns0", constant("192.0.2.53")),
    column.text("dns1", constant("198.51.100.53")),
    column.text("gateway", _by_slot("192.0.2.1", "10.0.0.1", "192.168.0.1")),
    column.text("gsn", _digits("imei", 15, "35")),
    column.text("homecarrid", _carriers(CARRIERS)),
    column.text("hostname", _hostnames),
    column.text("iccid", _digits("iccid", 19, "8901", of_sim=True)),
    column.id_("id", net_device_ids, ANY_ID),
    column.text("imei", _digits("imei", 15, "35"), EXACT_IN),
    column.text("imsi", _digits("imsi", 15, "310", of_sim=True)),
    column.text("ipv4_address", _addresses, EXACT_IN),
    column.flag("is_asset", is_modem, EXACT),
    column.flag("is_gps_supported", is_modem, EXACT),
    # Deprecated: still returned, and inaccurate (service contract, Deprecations).
    column.flag("is_upgrade_available", lambda _v, b: b["row"] % 2 == 0),
    column.flag("is_upgrade_supported", is_modem, EXACT),
    column.text("ltebandwidth", _modem_only("20 MHz")),
    column.text("mac", lambda v, b: device_macs(v, b["row"]), EXACT_IN),
    column.text("manufacturer", _modem_only("Halden Wireless")),
    column.text("mdn", _digits("mdn", 10, "555", of_sim=True)),
    column.text("mfg_model", _modem_only("HW7421")),
    column.text("mfg_product", _modem_only("Internal modem")),
    column.text("mode", _by_slot("wan", "wan", "lan"), EXACT_IN),
    column.text("model", _modem_only("HW7421-EA")),
    column.text("modem_fw", _modem_only("SWI9X50C_01.14.22")),
    column.integer("mtu", lambda v, b: np.where(is_modem(v, b), 1428, 1500)),
    column.text("name", _names, EXACT_IN),
    column.text("netmask", constant("255.255.255.0")),
    column.text("pin_status", _modem_only("READY")),
    column.text("port", _by_slot("wan", "int1", "lan")),
    column.text("profile", _modem_only("1")),
    column.address("resource_url", net_device_ids, to="net_devices"),
    column.text("rfband", _modem_only("Band 13")),
    column.text("rfband5g", _modem_only("n77")),
    column.text("roam", _modem_only("home")),
    column.relation("router", _routers, EXACT_IN | {"isnull"}, to="routers"),
    column.text("serial", _digits("modem-serial", 12)),
    column.text("service_type", service_type, EXACT_IN),
    column.text("summary", _connection_state),
    column.text("type", _by_slot("ethernet", "mdm", "ethernet"), EXACT_IN),
    column.text("uid", _names, EXACT_IN),
    column.time("updated_at", updated_at, RANGE),
    column.real("uptime", _uptime),
    column.text("ver_pkg", _modem_only("01.14.22.00_GENERIC")),
    column.text("version", _modem_only("1.0")),
    *column.nulls(_EMPTY),
)  # fmt: skip

NET_DEVICES = Resource(
    name="net_devices",
    rows=net_device_rows,
    id_paging=True,
    order_by=("id", "updated_at"),
    expands=("account", "router"),
    columns=column.ordered(*_FIELDS),
)
