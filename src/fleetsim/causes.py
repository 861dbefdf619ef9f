"""Ground truth: what happened in the simulated world, as opposed to what the records show.

Tests compare marts with it: failover episodes, outages, trips, battery lives, periods of wrong
fixes, and how each router reports. It includes records that clients deleted, which the resources
no longer list.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final

import numpy as np

from fleetsim import stamps
from fleetsim.belonging import BELONGING_KINDS
from fleetsim.blocks import Block
from fleetsim.fleet import SLOTS_PER_ROUTER, WIRED
from fleetsim.identifiers import group_ids
from fleetsim.moves import MOVE_KINDS
from fleetsim.organisation import ACCOUNTS, CARRIERS
from fleetsim.places import HOME_REGIONS, METERS_PER_MILE, miles_between, wrapped
from fleetsim.registrations import REGISTRATION_KINDS
from fleetsim.rendering import records
from fleetsim.resources.alert_texts import device_names
from fleetsim.resources.battery_reports import battery_ids
from fleetsim.resources.failovers import failovers_of
from fleetsim.resources.net_devices import NET_DEVICES
from fleetsim.resources.routers import names
from fleetsim.resources.samples import modem_slots
from fleetsim.roads import DrivenDay
from fleetsim.units import DAY, NEVER, NULL, Ints
from fleetsim.view import View
from fleetsim.world import World, batteries, trips
from fleetsim.world.fixes import wrong_spells
from fleetsim.world.plans import OUTAGE_REASONS, TELLINGS, DayPlan
from fleetsim.world.traffic import carried_between

Fact = dict[str, Any]


def when(instant: int) -> str:
    """Return an instant as ISO text."""
    return stamps.to_datetime(instant).isoformat()


def span(start: int, end: int, until: int) -> Fact:
    """Return start and end; `ended_at` is null if the end is after `until`."""
    return {"started_at": when(start), "ended_at": when(end) if end <= until else None}


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


_INTERFACES: Final = ("ethernet", "modem 1", "modem 2", "lan")
_OFFLINE_CAUSES: Final = ("power", "link", "reboot")
_CURVE_POINTS: Final = 41


def _days(view: View, until: int) -> Iterator[tuple[int, DayPlan]]:
    """Yield each service day up to an instant, with every router's plan."""
    everyone = np.arange(view.world.fleet.size, dtype=np.int64)
    for day in range(view.world.first_day, until // DAY + 1):
        yield day, view.world.planner.plan(everyone, np.full(len(everyone), day))


def failover_episodes(view: View, until: int) -> Iterator[Fact]:
    """Yield every failover to a backup WAN, with its outage and the bytes the backup carried."""
    fleet, draws = view.world.fleet, view.world.draws
    for day in range(view.world.first_day, until // DAY + 1):
        found = failovers_of(view.world, day)
        found = found.take(np.flatnonzero(found["start"] <= until))
        rows, start, slot = found["row"], found["start"], found["to_slot"]
        carried_until = np.minimum(found["carried_until"], until)
        usage = carried_between(draws, fleet, rows, start, carried_until)
        bay = rows * SLOTS_PER_ROUTER + slot
        backup = fleet.moves.bay_of(bay, start)
        names, carrier = device_names(view, backup, bay), fleet.moves.carrier_of(backup, start)
        told_as = [TELLINGS[number].name for number in found["telling"].tolist()]
        for index, row in enumerate(rows.tolist()):
            yield {
                "router_id": int(fleet.router_id[row]),
                **span(int(start[index]), int(found["end"][index]), until),
                "outage_started_at": when(int(found["lost_at"][index])),
                "from_interface": _INTERFACES[int(found["from_slot"][index])],
                "to_interface": _INTERFACES[int(slot[index])],
                "to_net_device_id": int(view.world.net_device_id[backup[index]]),
                "to_uid": names[index],
                "to_carrier": CARRIERS[int(carrier[index])],
                "reason": OUTAGE_REASONS[int(found["reason"][index])],
                "data_usage_bytes": int(usage[index]),
                "overlaps_another": bool(
                    found["number"][index] or found["carried_until"][index] < found["end"][index]
                ),
                "is_second": bool(found["number"][index]),
                **({"telling": told_as[index]} if view.world.has_tellings else {}),
            }


def outages(view: View, until: int) -> Iterator[Fact]:
    """Yield every outage of a primary WAN and every period in which a router was offline."""
    fleet = view.world.fleet
    for _, plan in _days(view, until):
        for row in np.flatnonzero(plan.outage.start <= until).tolist():
            yield {
                "router_id": int(fleet.router_id[row]),
                "kind": "primary_wan",
                "cause": OUTAGE_REASONS[int(plan.outage_reason[row])],
                "is_wired": bool(fleet.primary[row] == WIRED),
                **span(int(plan.outage.start[row]), int(plan.outage.end[row]), until),
            }
        for row in np.flatnonzero(plan.offline.start <= until).tolist():
            yield {
                "router_id": int(fleet.router_id[row]),
                "kind": "offline",
                "cause": _OFFLINE_CAUSES[int(plan.offline_cause[row])],
                "is_wired": None,
                **span(int(plan.offline.start[row]), int(plan.offline.end[row]), until),
            }


def trip_facts(view: View, until: int) -> Iterator[Fact]:
    """Yield every trip: one drive between two stops, and the length of the road driven."""
    world, fleet = view.world, view.world.fleet
    riders = np.flatnonzero(fleet.is_vehicle)
    for day in range(world.first_day, until // DAY + 1):
        legs = trips.day_legs(world.draws, fleet, riders, np.full(len(riders), day))
        driven = (legs.depart >= world.started_at) & (legs.depart <= until)
        driven &= fleet.registrations.holds(riders[:, None], legs.depart)
        lon_from, lon_to = wrapped(legs.lon_from), wrapped(legs.lon_to)
        for vehicle, leg in np.argwhere(driven).tolist():
            found = {
                "router_id": int(fleet.router_id[riders[vehicle]]),
                **span(int(legs.depart[vehicle, leg]), int(legs.arrive[vehicle, leg]), until),
                "from_latitude": float(legs.lat_from[vehicle, leg]),
                "from_longitude": float(lon_from[vehicle, leg]),
                "to_latitude": float(legs.lat_to[vehicle, leg]),
                "to_longitude": float(lon_to[vehicle, leg]),
                "distance_miles": _road_miles(legs, vehicle, leg),
            }
            if fleet.roads is not None:
                yield found | _as_driven(fleet.roads.day(int(riders[vehicle]), day), leg, until)
            else:
                yield found


def _as_driven(day: DrivenDay, leg: int, until: int) -> Fact:
    """Return the length of a trip that was driven as people do, and what its fixes can show."""
    return {
        "distance_miles": day.trips[leg].metres / METERS_PER_MILE,
        "parts": [
            {
                **span(day.instant(part.started), day.instant(part.ended), until),
                "distance_miles": part.metres / METERS_PER_MILE,
                "miles_between_fixes": seen / METERS_PER_MILE,
            }
            for part, seen in day.parts[leg]
        ],
    }


def wrong_fix_spells(view: View, until: int) -> Iterator[Fact]:
    """Yield the periods in which a receiver was tens of kilometres off: all its fixes are wrong."""
    world, fleet = view.world, view.world.fleet
    riders = np.flatnonzero(fleet.is_vehicle & fleet.habits.sends_wrong_fixes)
    for day in range(world.first_day, until // DAY + 1):
        days = np.full(len(riders), day)
        legs = trips.day_legs(world.draws, fleet, riders, days)
        spells = wrong_spells(world.draws, riders, days, legs)
        seen = (spells.start >= world.started_at) & (spells.start <= until)
        seen &= fleet.registrations.holds(riders[:, None], spells.start)
        for vehicle, leg in np.argwhere(seen).tolist():
            yield {
                "router_id": int(fleet.router_id[riders[vehicle]]),
                **span(int(spells.start[vehicle, leg]), int(spells.end[vehicle, leg]), until),
            }


def reporting_habits(view: View, until: int) -> Iterator[Fact]:
    """Yield how each router reports, and whether it is near the antimeridian."""
    fleet = view.world.fleet
    habits = fleet.habits
    for row in np.flatnonzero(fleet.registrations.has_begun(until)).tolist():
        found = {
            "router_id": int(fleet.router_id[row]),
            "is_vehicle": bool(fleet.is_vehicle[row]),
            "is_far": bool(fleet.region[row] >= HOME_REGIONS),
            "parked_every_minutes": int(habits.parked_every[row]),
            "sends_speed": bool(habits.sends_speed[row]),
            "sends_wrong_fixes": bool(habits.sends_wrong_fixes[row]),
            "has_drifting_clock": bool(habits.has_drifting_clock[row]),
        }
        if fleet.roads is not None:
            way = fleet.roads.way(row).name if fleet.is_vehicle[row] else None
            yield found | {"way_of_life": way}
        else:
            yield found


def _road_miles(legs: trips.Legs, vehicle: int, leg: int) -> float:
    """Return the length of a whole leg along its bend."""
    one = trips.Legs(
        *(getattr(legs, name)[vehicle : vehicle + 1, leg : leg + 1] for name in vars(legs))
    )
    again = trips.Legs(*(np.repeat(values, _CURVE_POINTS, axis=0) for values in vars(one).values()))
    begin, end = int(one.depart[0, 0]), int(one.arrive[0, 0]) - 1
    spots = trips.locate_on(again, np.linspace(begin, end, _CURVE_POINTS).astype(np.int64))
    lat, lon = spots.latitude, spots.longitude
    return float(miles_between(lat[:-1], lon[:-1], lat[1:], lon[1:]).sum())


def battery_lives(view: View, until: int) -> Iterator[Fact]:
    """Yield each battery's fade, its true health, when it reaches 62%, and its cycles."""
    world, fleet = view.world, view.world.fleet
    rows = np.flatnonzero(fleet.has_battery & fleet.registrations.has_begun(until))
    ageing = world.ageing.of(rows)
    cycles = _cycles(view, rows, until)
    began = ageing.health(np.full(len(rows), world.started_at))
    now = ageing.health(np.full(len(rows), until))
    ids = battery_ids(view).of(rows)
    worn = batteries.report_after(world.draws, rows, ageing.worn_at)
    registered = fleet.registrations
    worn = np.maximum(worn, registered.since[rows])  # its first report shows it
    for index, row in enumerate(rows.tolist()):
        is_worn = worn[index] <= until and worn[index] < registered.until[row]
        yield {
            "battery_id": int(ids[index]),
            "router_id": int(fleet.router_id[row]),
            "health_at_start_pct": float(began[index]),
            "health_now_pct": float(now[index]),
            "fade": batteries.FADES[ageing.fade[index]],
            "reaches_62_at": when(int(ageing.worn_at[index])),
            "reached_62_at": when(int(worn[index])) if is_worn else None,
            "cycles": cycles[row],
        }


def _cycles(view: View, rows: Ints, until: int) -> dict[int, list[Fact]]:
    """Return the discharges of each battery, with the charge that each one left."""
    found: dict[int, list[Fact]] = {int(row): [] for row in rows}
    for _, plan in _days(view, until):
        spell = plan.on_battery
        end = np.minimum(spell.end, until)
        left = batteries.charge(spell, plan.powered_off, plan.drain_rate, end).percent
        for row in rows[spell.start[rows] <= until].tolist():
            ends = span(int(spell.start[row]), int(spell.end[row]), until)
            off = int(plan.powered_off[row])
            gave_out = when(off) if off <= until and off < NEVER else None
            cycle = {**ends, "charge_left_pct": float(left[row]), "powered_off_at": gave_out}
            found[row].append(cycle)
    return found


def deletions(view: View, until: int) -> Iterator[Fact]:
    """Yield every record that clients deleted, as it was last served."""
    for gone in view.ledger.deletions:
        if gone.at <= until:
            yield {
                "resource": gone.resource,
                "id": gone.identity,
                "deleted_at": when(gone.at),
                "record": gone.record,
            }


CAUSES: Final[dict[str, Callable[[View, int], Iterator[Fact]]]] = {
    "failover_episodes": failover_episodes,
    "outages": outages,
    "trips": trip_facts,
    "battery_life": battery_lives,
    "deletions": deletions,
    "wrong_fixes": wrong_fix_spells,
    "reporting": reporting_habits,
    "interface_spans": interface_spans,
    "router_spans": router_spans,
    "registrations": registrations,
}
