"""The alerts that result from causes in the fleet, one UTC day at a time."""

from dataclasses import dataclass

import numpy as np

from fleetsim.alert_types import CODE
from fleetsim.blocks import Block
from fleetsim.draws import Draws
from fleetsim.fleet import MODEM_ONE, MODEM_TWO, WIRED, SimulatedFleet
from fleetsim.places import miles_between
from fleetsim.units import DAY, MINUTE, NEVER, SECOND, Ints
from fleetsim.world import batteries, trips
from fleetsim.world.occurrences import Occurrences
from fleetsim.world.people import add_actions, failed_logins, lockouts
from fleetsim.world.plans import CABLE, LINK, NOTICED_AFTER, DayPlan, told
from fleetsim.world.world import World

_WEEK = 7 * DAY
_WORST_S_A_DAY = 15.0


def clock_error(draws: Draws, fleet: SimulatedFleet, router: Ints, instant: Ints) -> Ints:
    """Return how far each router's clock is ahead of the service's at instants."""
    phase = draws.below(_WEEK, "clock-set", router)
    days = (instant - phase) % _WEEK / DAY
    rate = draws.between(-_WORST_S_A_DAY, _WORST_S_A_DAY, "clock-rate", router) * SECOND
    error = (rate * days).astype(np.int64)
    return np.where(fleet.habits.has_drifting_clock[router], error, 0)


CONNECTION_DELAY = MINUTE
"""Service contract, Limits: online or offline for 60 seconds first."""

GEOFENCE_MILES = 0.3
_EVERYDAY_SLOTS = 9
_EVERYDAY_ODDS = 0.42
_EVERYDAY = (
    *("wan_service_type", "wan_service_type", "cpu_utilization", "memory_utilization"),
    *("login_success", "wifi_client_state_change", "wifi_client_state_change"),
    *("unrecognized_mac_alert", "ipverify_event", "router_sdk_app_execution_state_changed"),
    *("data_cap_threshold", "ip_banned"),
)
_TUNNEL_ODDS = 0.5
_BY_SERVICE = tuple(
    CODE[name] for name in ("connection_state", "config_change", "router_group_change")
)
"""Types that the service detects, by its own clock."""


@dataclass(frozen=True)
class Day:
    """The service days that can raise alerts on one UTC day, flattened to one row each."""

    world: World
    router: Ints
    service_day: Ints
    plan: DayPlan


def alerts_of(world: World, routers: Ints, day: int, *, accounts: bool) -> Block:
    """Return the alerts of a UTC day about some routers and, if requested, about accounts."""
    found = Occurrences(world.draws, day, world.started_at, world.fleet.registrations)
    router = np.concatenate([routers, routers])
    service_day = np.repeat(np.array([day - 1, day]), len(routers))
    here = Day(world, router, service_day, world.planner.plan(router, service_day))
    _outages(found, here)
    _connection(found, here)
    _charge(found, here)
    _wear(found, here)
    _heat(found, here)
    _settings(found, here)
    _regrouped(found, world, routers, day)
    _rides(found, here)
    _everyday(found, here)
    if accounts:
        add_actions(found, CODE["mgr_login_failure"], failed_logins(world, day))
        add_actions(found, CODE["account_locked"], lockouts(world, day))
    block = found.block("alert")
    return Block(block.arrays | {"detected": _by_device_clock(world, block)})


def _by_device_clock(world: World, block: Block) -> Ints:
    """Return when alerts were detected; alerts of a device are dated by its own clock."""
    error = clock_error(world.draws, world.fleet, np.maximum(block["router"], 0), block["detected"])
    by_device = (block["router"] >= 0) & ~np.isin(block["kind"], _BY_SERVICE)
    return np.asarray(block["detected"] + np.where(by_device, error, 0))


def _outages(found: Occurrences, day: Day) -> None:
    """A primary-WAN outage: disconnect, failover, tunnels, reconnect, backup on standby."""
    fleet, plan, router = day.world.fleet, day.plan, day.router
    happens = plan.outage.happens
    primary, backup = fleet.primary[router], fleet.backup[router]
    wired = primary == WIRED
    unplugged = wired & (plan.outage_reason == CABLE)
    lost = np.where(wired, CODE["ethernet_wan_disconnected"], CODE["modem_wan_disconnected"])
    lost = np.where(unplugged, CODE["ethernet_wan_unplugged"], lost)
    back = np.where(wired, CODE["ethernet_wan_connected"], CODE["modem_wan_connected"])
    reason = plan.outage_reason
    start, end = plan.outage.start, plan.outage.end
    telling = {name: told(plan.telling, name) for name in ("lost_after", "up_after", "repeats")}
    says_loss = happens & (telling["lost_after"] < NEVER)
    says_back, says_standby = (
        happens & (told(plan.telling, name) != 0) for name in ("says_back", "says_standby")
    )
    found.add(says_loss, start + telling["lost_after"], router, lost, slot=primary, value=reason)
    failover, failover_at = CODE["failover_event"], plan.failover_at
    in_use = np.minimum(plan.second_failover_at, end) - failover_at
    for number in range(telling["repeats"].max(initial=0) + 1):
        at = failover_at + in_use // (telling["repeats"] + 1) * number
        keep = happens & (number <= telling["repeats"])
        found.add(keep, at, router, failover, slot=backup, value=primary)
    connected = failover_at + np.minimum(telling["up_after"], np.maximum(in_use // 2, 2 * SECOND))
    found.add(happens, connected, router, CODE["modem_wan_connected"], slot=backup, value=reason)
    plugged = CODE["ethernet_wan_plugged"]
    found.add(
        happens & unplugged & says_back, end - SECOND, router, plugged, slot=primary, value=reason
    )
    found.add(says_back, end + SECOND, router, back, slot=primary, value=reason)
    standby = CODE["modem_wan_standby"]
    found.add(says_standby, end + 5 * SECOND, router, standby, slot=backup, value=reason)
    _backup_fails(found, day)
    tunnel = happens & day.world.draws.chance(_TUNNEL_ODDS, "tunnel", router)
    found.add(tunnel, start + 20 * SECOND, router, CODE["ipsec_tunnel_down"], slot=primary)
    found.add(tunnel, end + 15 * SECOND, router, CODE["ipsec_tunnel_up"], slot=primary)


def _backup_fails(found: Occurrences, day: Day) -> None:
    """A backup that fails during an outage: it disconnects, and the other modem takes over."""
    fleet, plan, router = day.world.fleet, day.plan, day.router
    at, end, reason = plan.second_failover_at, plan.outage.end, plan.outage_reason % CABLE
    backup, other = fleet.backup[router], fleet.other_backup[router]
    again = at < NEVER
    standby = again & (told(plan.telling, "says_standby") != 0)
    lost, back = CODE["modem_wan_disconnected"], CODE["modem_wan_connected"]
    found.add(again, at - NOTICED_AFTER + SECOND, router, lost, slot=backup, value=reason)
    found.add(again, at, router, CODE["failover_event"], slot=other, value=backup)
    found.add(again, at + 2 * SECOND, router, back, slot=other, value=reason)
    found.add(standby, end + SECOND, router, back, slot=backup, value=reason)
    found.add(
        standby, end + 6 * SECOND, router, CODE["modem_wan_standby"], slot=other, value=reason
    )


def _connection(found: Occurrences, day: Day) -> None:
    """A spell offline: the connection's loss and return, each after 60 s, and the reboot."""
    spell, router = day.plan.offline, day.router
    known = spell.happens & (spell.end - spell.start >= CONNECTION_DELAY)
    code = CODE["connection_state"]
    found.add(known, spell.start + CONNECTION_DELAY, router, code, value=0)
    found.add(known, spell.end + CONNECTION_DELAY, router, code, value=1)
    rebooted = spell.happens & (day.plan.offline_cause != LINK)
    reboot = CODE["reboot_status_change"]
    found.add(rebooted, spell.end + 5 * SECOND, router, reboot, value=day.plan.offline_cause)


def _charge(found: Occurrences, day: Day) -> None:
    """Charge falling to 20% and 7%, and charging at too high a current or voltage."""
    plan, router, draws = day.plan, day.router, day.world.draws
    spell = plan.on_battery
    low = batteries.falls_to(spell, batteries.LOW_POWER_PCT, plan.drain_rate)
    low = batteries.report_after(draws, router, np.minimum(low, NEVER))
    code = CODE["batt_sys_low_power_alert"]
    found.add(spell.happens & (low < spell.end), low, router, code, value=batteries.LOW_POWER_PCT)
    empty = plan.powered_off
    off = CODE["batt_sys_power_off_alert"]
    found.add(empty < NEVER, empty, router, off, value=batteries.POWER_OFF_PCT)
    surge = batteries.surges(draws, router, day.service_day) & spell.happens
    begun = batteries.report_after(draws, router, np.minimum(spell.end, NEVER))
    current = CODE["batt_over_current_alert"]
    found.add(surge, begun, router, current, value=batteries.OVER_CURRENT_MA)
    peak = batteries.overvoltage_at(draws, router, spell, plan.powered_off, plan.drain_rate)
    high = batteries.overcharges(draws, router, day.service_day) & spell.happens
    voltage = CODE["batt_over_voltage_alert"]
    found.add(high, peak, router, voltage, value=batteries.OVER_VOLTAGE_MV)


def _wear(found: Occurrences, day: Day) -> None:
    """Health falling to 62%, once in a battery's life."""
    world, router = day.world, day.router
    worn = batteries.report_after(world.draws, router, world.ageing.worn_at[router])
    today = worn // DAY == day.service_day
    keep = today & world.fleet.has_battery[router]
    found.add(keep, worn, router, CODE["batt_health_alert"], value=batteries.HEALTH_ALERT_PCT)


def _heat(found: Occurrences, day: Day) -> None:
    """The first report of a local day at 50 degrees Celsius."""
    world, router = day.world, day.router
    weather = batteries.warmth(world.draws, world.fleet, router, day.service_day)
    hot, at = weather.rises_to(batteries.OVER_TEMP_C)
    at = batteries.report_after(world.draws, router, at)
    keep = hot & world.fleet.has_battery[router] & (at >= world.started_at)
    found.add(keep, at, router, CODE["batt_over_temp_alert"], value=batteries.OVER_TEMP_C)


def _settings(found: Occurrences, day: Day) -> None:
    """A user's change of the router's settings."""
    world = day.world
    change = world.changes.plan(day.router, day.service_day)
    code = CODE["config_change"]
    found.add(
        change.at < NEVER, change.at, day.router, code, slot=change.setting, value=change.person
    )


def _regrouped(found: Occurrences, world: World, routers: Ints, day: int) -> None:
    """A move to another group, or out of one."""
    belonging = world.fleet.belonging
    at = belonging.changed_at(routers, np.full(len(routers), (day + 1) * DAY - 1))
    moved = belonging.group_at(routers, at) != belonging.group_at(routers, at - 1)
    keep = moved & (at >= max(day * DAY - DAY, world.started_at))
    found.add(keep, at, routers, CODE["router_group_change"])


def _rides(found: Occurrences, day: Day) -> None:
    """A vehicle's day: ignition on and off, leaving and entering the depot's geofence."""
    world = day.world
    rides = np.flatnonzero(world.fleet.is_vehicle[day.router])
    if len(rides) == 0:
        return
    router = day.router[rides]
    legs = trips.day_legs(world.draws, world.fleet, router, day.service_day[rides])
    depart, arrive = legs.depart[:, 0], legs.parked_from()
    last = legs.drives.sum(axis=1) - 1
    who = np.arange(len(router))
    out = _crossing(legs, who, np.zeros_like(last))
    back = _crossing(legs, who, last)
    keep = (depart >= world.started_at) & (last >= 0)
    gpio, fence = CODE["gpio_state_change"], CODE["geofence_proximity_change"]
    found.add(keep, depart - 30 * SECOND, router, gpio, value=1)
    found.add(keep, depart + out, router, fence, value=0)
    found.add(keep, arrive - back, router, fence, value=1)
    found.add(keep, arrive + 20 * SECOND, router, gpio, value=0)


def _crossing(legs: trips.Legs, who: Ints, leg: Ints) -> Ints:
    """Return how long after a start (or before a stop) a vehicle crosses the geofence.

    Near either end, progress is about 3f², where f is the time fraction of the leg.
    """
    miles = miles_between(
        legs.lat_from[who, leg],
        legs.lon_from[who, leg],
        legs.lat_to[who, leg],
        legs.lon_to[who, leg],
    )
    fraction = np.sqrt(np.minimum(GEOFENCE_MILES / np.maximum(miles, GEOFENCE_MILES), 0.75) / 3)
    return np.asarray((fraction * (legs.arrive - legs.depart)[who, leg]).astype(np.int64))


def _everyday(found: Occurrences, day: Day) -> None:
    """Minor events of any router that is on."""
    world, draws = day.world, day.world.draws
    router, when = day.router[:, None], day.service_day[:, None]
    number = np.arange(_EVERYDAY_SLOTS)
    codes = np.array([CODE[name] for name in _EVERYDAY])
    at = when * DAY + world.fleet.day_shift[router]
    at = at + draws.between(0, DAY, "everyday-at", router, when, number).astype(np.int64)
    spell = day.plan.offline
    off = (spell.start[:, None] - MINUTE <= at) & (at < spell.end[:, None] + MINUTE)
    keep = draws.chance(_EVERYDAY_ODDS, "everyday", router, when, number) & ~off
    kind = codes[draws.below(len(codes), "everyday-kind", router, when, number)]
    modem = MODEM_ONE + (number % 3 == 0) * (MODEM_TWO - MODEM_ONE)
    value = draws.below(1000, "everyday-value", router, when, number)
    found.add(
        keep & (at >= world.started_at),
        at,
        np.broadcast_to(router, at.shape),
        kind,
        slot=modem,
        value=value,
    )
