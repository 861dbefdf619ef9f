"""batteries: the last report of each E100 battery (service contract, batteries)."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from fleetsim import resource_columns as column
from fleetsim.blocks import Block, once
from fleetsim.definition import Resource
from fleetsim.identifiers import Identifiers
from fleetsim.resource_columns import constant
from fleetsim.units import DAY, HOUR, NULL, Ints, Reals
from fleetsim.view import View
from fleetsim.world import batteries
from fleetsim.world.batteries import Charge, Electrics
from fleetsim.world.plans import DayPlan
from fleetsim.world.spells import Spells, service_day


@dataclass(frozen=True)
class BatteryReport:
    """What batteries reported, and when."""

    at: Ints
    charge: Charge
    electrics: Electrics
    drain_rate: Reals
    celsius: Reals
    health: Ints


def battery_rows(view: View) -> Block:
    """Return the routers that hold a battery."""
    return Block({"row": np.flatnonzero(view.scope & view.world.fleet.has_battery)})


def battery_ids(view: View) -> Identifiers:
    """Return the ids of batteries."""
    return Identifiers(view.world.draws, "batteries", 700_001, 3)


def last_report(view: View, router: Ints, instant: Ints) -> Ints:
    """Return when batteries last reported by an instant, while their router was on.

    A router also reports when it registers.
    """
    world, fleet = view.world, view.world.fleet
    at = batteries.report_before(world.draws, router, instant)
    for _ in range(2):  # the report before one spell may lie in the previous day's spell
        spell = world.planner.plan(router, service_day(at, fleet.day_shift[router])).offline
        earlier = batteries.report_before(
            world.draws, router, np.where(spell.holds(at), spell.start, at)
        )
        at = np.where(spell.holds(at), earlier, at)
    return np.maximum(at, fleet.registrations.since[router])


def read_batteries(view: View, router: Ints, at: Ints) -> BatteryReport:
    """Return what batteries show at reports."""
    world, fleet = view.world, view.world.fleet
    day = service_day(at, fleet.day_shift[router])
    today, yesterday = world.planner.plan(router, day), world.planner.plan(router, day - 1)
    current = today.on_battery.start <= at
    spell, off, rate = _latest(current, today, yesterday)
    state = batteries.charge(spell, off, rate, at)
    cycle = batteries.Cycle(np.where(current, day, day - 1), spell)
    local_day = (at + fleet.utc_offset[router]) // DAY
    return BatteryReport(
        at=at,
        charge=state,
        electrics=batteries.electrics(world.draws, router, cycle, state, at),
        drain_rate=rate,
        celsius=batteries.warmth(world.draws, fleet, router, local_day).at(at),
        health=world.ageing.of(router).gauge(at),
    )


def _latest(current: Any, today: DayPlan, yesterday: DayPlan) -> tuple[Spells, Ints, Reals]:
    """Return the latest spell on battery, when the router powered off in it, and its drain rate."""
    spell = Spells(
        np.where(current, today.on_battery.start, yesterday.on_battery.start),
        np.where(current, today.on_battery.end, yesterday.on_battery.end),
    )
    off = np.where(current, today.powered_off, yesterday.powered_off)
    return spell, off, np.where(current, today.drain_rate, yesterday.drain_rate)


@once
def _reading(view: View, block: Block) -> BatteryReport:
    router = block["row"]
    at = last_report(view, router, np.full(len(block), view.now))
    return read_batteries(view, router, at)


def _status(view: View, block: Block) -> Any:
    state = _reading(view, block).charge
    idle = np.where(state.charging, "Charging", "Idle")
    return np.where(state.discharging, "Discharging", idle).astype(object)


def _minutes_left(view: View, block: Block) -> Ints:
    """Return minutes until the charge reaches 7%; null unless discharging."""
    reading = _reading(view, block)
    left = np.maximum(reading.charge.percent - batteries.POWER_OFF_PCT, 0) / reading.drain_rate
    return np.where(reading.charge.discharging, (left * 60).astype(np.int64), NULL)


def _ids(view: View, block: Block) -> Ints:
    return battery_ids(view).of(block["row"])


def _serial(view: View, block: Block) -> list[str]:
    return [
        f"BT{number:08d}"
        for number in view.world.draws.below(
            10**8, "battery-serial", view.world.fleet.hardware[block["row"]]
        ).tolist()
    ]


BATTERIES = Resource(
    name="batteries",
    rows=battery_rows,
    one_of=("router", "router__in"),
    expands=("router",),
    columns=(
        column.time(
            "created_at",
            lambda v, b: v.world.fleet.after_installing(b["row"], HOUR),
            time_format="seconds_offset",
        ),
        column.integer("health", lambda v, b: _reading(v, b).health),
        column.id_("id", _ids),
        column.text("manufacturer", constant("Tidal Cells")),
        column.integer("milliamps", lambda v, b: _reading(v, b).electrics.milliamps),
        column.integer("millivolts", lambda v, b: _reading(v, b).electrics.millivolts),
        column.address("resource_url", _ids, to="batteries"),
        column.router(),
        column.integer(
            "rsoc", lambda v, b: np.ceil(_reading(v, b).charge.percent).astype(np.int64)
        ),
        column.text("serial", _serial),
        column.text("status", _status),
        column.integer("temp", lambda v, b: np.floor(_reading(v, b).celsius).astype(np.int64)),
        column.integer("time_remaining", _minutes_left),
        column.text("type", constant("internal")),
        column.time("updated_at", lambda v, b: _reading(v, b).at, time_format="seconds_offset"),
    ),
)
