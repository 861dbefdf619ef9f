"""The `friendly_info` and `info` of alerts, by type (service contract, alerts)."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np

from fleetsim import stamps
from fleetsim.alert_types import ALERT_TYPES, CODE, WAN_STATUS_ALERTS
from fleetsim.blocks import Block, once
from fleetsim.fleet import MODEM_ONE, SLOTS_PER_ROUTER, WIRED
from fleetsim.units import Ints
from fleetsim.view import View
from fleetsim.world.plans import OUTAGE_REASONS
from fleetsim.world.running import SETTINGS

_PORTS: Final = ("WAN (ethernet)", "Modem 1 (SIM1)", "Modem 2 (SIM1)", "LAN")
_CAUSES: Final = ("power restored", "connection lost", "reboot requested")

_FRIENDLY: Final[dict[str, Callable[[int, int], str]]] = {
    "batt_health_alert": lambda _s, v: f"Remaining battery life has reached {v}%.",
    "batt_over_current_alert": lambda _s, v: f"Battery current has reached {v} mA.",
    "batt_over_temp_alert": lambda _s, v: f"Battery temperature has reached {v} degrees Celsius.",
    "batt_over_voltage_alert": lambda _s, v: f"Battery voltage has reached {v} mV.",
    "batt_sys_low_power_alert": lambda _s, v: f"Battery charge has reached {v}%.",
    "batt_sys_power_off_alert": lambda _s, v: f"Battery charge has reached {v}%: powering off.",
    "config_change": lambda s, _v: f"Local change of {SETTINGS[s]}.",
    "connection_state": lambda _s, v: f"The device is {'online' if v else 'offline'}.",
    "cpu_utilization": lambda _s, v: f"CPU utilization has reached {80 + v % 20}%.",
    "memory_utilization": lambda _s, v: f"Memory utilization has reached {80 + v % 20}%.",
    "data_cap_threshold": lambda s, v: f"{_PORTS[s]} has used {50 + v % 50}% of its data cap.",
    "failover_event": lambda s, v: f"Primary WAN changed from {_PORTS[v]} to {_PORTS[s]}.",
    "geofence_proximity_change": lambda _s, v: (
        f"The device has {'entered' if v else 'left'} the geofence Depot."
    ),
    "gpio_state_change": lambda _s, v: f"Ignition sense is now {'high' if v else 'low'}.",
    "login_success": lambda _s, v: f"User admin logged in from 192.168.0.{v % 250 + 2}.",
    "account_locked": lambda _s, _v: "Locked for 30 minutes after six failed logins.",
    "http_push_failure": lambda _s, _v: "Delivery to a push destination failed.",
    "http_destination_suspended": lambda _s, _v: "A push destination was suspended.",
    "router_group_change": lambda _s, _v: "The device was moved or added to a group.",
    "reboot_status_change": lambda _s, v: f"The device rebooted: {_CAUSES[v]}.",
    "wan_service_type": lambda s, v: f"{_PORTS[s]} changed to {'5G' if v % 2 else 'LTE'}.",
}


def _other(name: str) -> Callable[[int, int], str]:
    """Return the text function of a type that needs only its name and port."""
    words = name.replace("_", " ")
    return lambda s, _v: f"{words} on {_PORTS[s]}"


_WORDS: Final = [_FRIENDLY.get(name, _other(name)) for name in ALERT_TYPES]


def friendly(view: View, block: Block) -> list[str]:
    """Return each alert's human-readable description."""
    names = ("kind", "slot", "value")
    rows = zip(*(block[n].tolist() for n in names), detection_times(view, block), strict=True)
    return [_friendly(view, *row) for row in rows]


def _friendly(view: View, kind: int, slot: int, value: int, time: str) -> str:
    """Return a description; some name the start of a failover, or who failed to log in from where.

    The service's own words are not known.
    """
    if kind == _FAILED_LOGIN:
        source = f"198.51.100.{value % 250 + 2}"
        return f"Login of user {view.world.people[value].email} from {source} failed: bad password."
    text = _WORDS[kind](slot, value)
    return f"{text.removesuffix('.')} at {time}." if kind == _FAILOVER else text


_FAILED_LOGIN: Final = CODE["mgr_login_failure"]
_FAILOVER: Final = CODE["failover_event"]
_LOGIN: Final = CODE["login_success"]
_WAN: Final = frozenset(CODE[name] for name in WAN_STATUS_ALERTS)


@once
def detection_times(_view: View, block: Block) -> list[str]:
    """Return when each alert was detected, to the second, as text."""
    return [str(text) for text in stamps.to_text(block["detected"], "seconds_offset")]


class _Port(NamedTuple):
    """The interface that an alert is about."""

    slot: int
    uid: str
    mac: str


def _ports(view: View, block: Block) -> list[_Port]:
    """Return the interface of each alert; slot 0 for alerts that are not about an interface."""
    # In those alerts, `slot` may hold another number.
    is_slot = (block["slot"] >= 0) & (block["slot"] < SLOTS_PER_ROUTER)
    slot = np.where(is_slot, block["slot"], 0)
    bay = np.maximum(block["router"], 0) * SLOTS_PER_ROUTER + slot
    device = view.world.fleet.moves.bay_of(bay, block["time"])
    names, macs = device_names(view, device, bay), device_macs(view, device)
    return [_Port(*row) for row in zip(slot.tolist(), names, macs, strict=True)]


def information(view: View, block: Block) -> list[dict[str, Any]]:
    """Return each alert's `info`."""
    rows = zip(
        block["kind"].tolist(),
        _ports(view, block),
        block["value"].tolist(),
        detection_times(view, block),
        strict=True,
    )
    return [_information(*row) for row in rows]


def _information(kind: int, port: _Port, value: int, time: str) -> dict[str, Any]:
    """Return the `info` of one alert; the contract defines two shapes, the others are invented."""
    name = ALERT_TYPES[kind]
    if kind in _WAN:
        return _wan_status(name, port, value, time)
    if kind == _LOGIN:
        return {
            "ip": f"192.168.0.{value % 250 + 2}",
            "time": [time, "UTC"],
            "type": name,
            "user": "admin",
        }
    return {"type": name, "time": time, "value": value}


def _wan_status(name: str, port: _Port, value: int, time: str) -> dict[str, Any]:
    """Return the shape that the WAN status alerts share."""
    return {
        "alert_type": name,
        "history": [],
        "info": {
            "mac": port.mac,
            "port": _PORTS[port.slot],
            "raw_port": "wan" if port.slot == WIRED else f"int{port.slot}",
            "reason": OUTAGE_REASONS[value % len(OUTAGE_REASONS)],
            "type": "ethernet" if port.slot == WIRED else "mdm",
            "uid": port.uid,
        },
        "status": name.rpartition("_")[2],
        "time": time,
        "type": name,
    }


def interface_name(slot: int, router_id: int) -> str:
    """Return the uid of a router's interface."""
    if slot == WIRED:
        return "ethernet-wan"
    if slot in (MODEM_ONE, MODEM_ONE + 1):
        return f"mdm-{(router_id * 2654435761 + slot) & 0xFFFFFFFF:08x}"
    return "ethernet-lan"


def mac_address(router_id: int, slot: int) -> str:
    """Return a locally administered MAC address in colon form."""
    number = router_id * 4 + slot
    low, middle, high = number & 0xFF, number >> 8 & 0xFF, number >> 16 & 0xFF
    return f"02:00:00:{high:02X}:{middle:02X}:{low:02X}"


def names_of(view: View, router: Ints, slot: Ints, instant: Ints) -> list[str]:
    """Return the uids of the interfaces that are in slots of routers at instants."""
    bay = router * SLOTS_PER_ROUTER + slot
    return device_names(view, view.world.fleet.moves.bay_of(bay, instant), bay)


def device_names(view: View, device: Ints, bay: Ints) -> list[str]:
    """Return the uids of devices in bays: a modem has its own uid or that of its bay."""
    fleet = view.world.fleet
    row = np.where(fleet.moves.keeps_name(device), device, bay)
    lone = fleet.moves.is_drawer(row)
    ids = fleet.hardware_id[np.where(lone, 0, row // SLOTS_PER_ROUTER)].tolist()
    rows = zip(row.tolist(), ids, lone.tolist(), strict=True)
    return [
        f"mdm-{row:08x}" if is_lone else interface_name(row % SLOTS_PER_ROUTER, router_id)
        for row, router_id, is_lone in rows
    ]


def device_macs(view: View, device: Ints) -> list[str]:
    """Return the MAC addresses of devices, which stay the same when devices move."""
    fleet = view.world.fleet
    lone = fleet.moves.is_drawer(device)
    ids = fleet.hardware_id[np.where(lone, 0, device // SLOTS_PER_ROUTER)].tolist()
    slots = np.where(lone, MODEM_ONE, device % SLOTS_PER_ROUTER).tolist()
    return [mac_address(router_id, slot) for router_id, slot in zip(ids, slots, strict=True)]
