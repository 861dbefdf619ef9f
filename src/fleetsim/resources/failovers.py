"""failovers: each failover of a router to its backup WAN, until it ends."""

from uuid import UUID

import numpy as np

from fleetsim import resource_columns as column
from fleetsim.blocks import Block
from fleetsim.definition import Resource
from fleetsim.identifiers import group_ids
from fleetsim.organisation import ACCOUNTS, CARRIERS
from fleetsim.resource_columns import ANY_ID, EXACT_RANGE, constant
from fleetsim.resources.accounts import ACCOUNT_IDS, group_names
from fleetsim.resources.alert_texts import names_of
from fleetsim.resources.routers import names
from fleetsim.units import DAY, MINUTE, NEVER, NULL, SECOND, Flags, Ints
from fleetsim.view import View
from fleetsim.world import World
from fleetsim.world.plans import CABLE, NOTICED_AFTER
from fleetsim.world.traffic import carried_between

_UPDATED_EVERY = MINUTE


def failovers_of(world: World, day: int) -> Block:
    """Return the failovers of a service day: router, slots, start and end in microseconds.

    If the backup failed too, there are two that overlap: both end when the primary is back. The
    first carries nothing from `carried_until` on. `number` is 1 for the second of a day.
    """

    def make() -> Block:
        everyone = np.arange(world.fleet.size, dtype=np.int64)
        plan = world.planner.plan(everyone, np.full(len(everyone), day))
        fleet = world.fleet
        first = np.flatnonzero(plan.outage.happens)
        second = np.flatnonzero(plan.second_failover_at < NEVER)
        row = np.concatenate([first, second])
        again = np.arange(len(row)) >= len(first)
        end = plan.outage.end[row]
        return Block(
            {
                "row": row,
                "day": np.full(len(row), day),
                "number": again.astype(np.int64),
                "from_slot": np.where(again, fleet.backup[row], fleet.primary[row]),
                "to_slot": np.where(again, fleet.other_backup[row], fleet.backup[row]),
                "start": np.where(again, plan.second_failover_at[row], plan.failover_at[row]),
                "end": end,
                "carried_until": np.where(
                    again, end, np.minimum(end, plan.second_failover_at[row])
                ),
                "lost_at": np.where(
                    again, plan.second_failover_at[row] - NOTICED_AFTER, plan.outage.start[row]
                ),
                "reason": np.where(again, plan.outage_reason[row] % CABLE, plan.outage_reason[row]),
                "telling": plan.telling[row],
            }
        )

    return world.cache.get(("failovers", day), make)


def failover_rows(view: View) -> Block:
    """Return the failovers that have begun, oldest first."""
    days = range(view.world.first_day, view.now // DAY + 1)
    parts = [failovers_of(view.world, day) for day in days]
    joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0].arrays}
    begun = np.flatnonzero((joined["start"] <= view.now) & _is_seen(view, joined))
    keys = ("number", "row", "start")
    order = begun[np.lexsort([joined[name][begun] for name in keys])]
    return Block({name: column[order] for name, column in joined.items()})


def _is_seen(view: View, joined: dict[str, Ints]) -> Flags:
    """Return which failovers the caller sees, by the router's account at that time."""
    fleet, row = view.world.fleet, joined["row"]
    account = fleet.belonging.account_at(row, joined["start"])
    deleted = list(view.ledger.writes_to("routers").deleted)
    known = view.is_remembered(row) & ~np.isin(fleet.router_id[row], deleted)
    return np.isin(account, list(view.accounts)) & known


def _until(view: View, block: Block) -> Ints:
    """Return when the record was last updated: each minute during the failover, then at its end."""
    running = block["start"] + (view.now - block["start"]) // _UPDATED_EVERY * _UPDATED_EVERY
    return np.where(block["end"] <= view.now, block["end"], running)


def _ended_at(view: View, block: Block) -> Ints:
    return np.where(block["end"] <= view.now, block["end"], NULL)


def _data_usage(view: View, block: Block) -> Ints:
    """Return the bytes the backup has carried."""
    world = view.world
    until = np.minimum(_until(view, block), block["carried_until"])
    return carried_between(world.draws, world.fleet, block["row"], block["start"], until)


def _uuids(view: View, block: Block) -> list[str]:
    draws = view.world.draws
    row, day, again = block["row"], block["day"], block["number"] == 1
    high, low = (
        np.where(
            again,
            draws.bits(f"second-failover-{part}", row, day),
            draws.bits(f"failover-{part}", row, day),
        ).tolist()
        for part in ("high", "low")
    )
    return [str(UUID(int=h << 64 | t, version=4)) for h, t in zip(high, low, strict=True)]


def _carrier(view: View, block: Block) -> list[str]:
    fleet = view.world.fleet
    carrier = fleet.carrier_of(block["row"], block["to_slot"], block["start"])
    return [CARRIERS[n] for n in carrier.tolist()]


def _groups(view: View, block: Block) -> Ints:
    """Return the group that each router was in when it failed over."""
    return view.world.fleet.belonging.group_at(block["row"], block["start"])


def _accounts(view: View, block: Block) -> Ints:
    belonging = view.world.fleet.belonging
    return ACCOUNT_IDS[belonging.account_at(block["row"], block["start"])]


FAILOVERS = Resource(
    name="failovers",
    rows=failover_rows,
    key="uuid",
    order_by=("started_at", "ended_at", "updated_at"),
    columns=(
        column.numeric_id("account_id", _accounts, ANY_ID),
        column.text("carrier_name", _carrier),
        column.text(
            "current_wan_interface", lambda v, b: names_of(v, b["row"], b["to_slot"], b["start"])
        ),
        column.real("current_wan_priority", lambda _v, b: 1.0 + b["to_slot"]),
        column.integer("data_usage", _data_usage),
        column.integer("elapsed_time", lambda v, b: (_until(v, b) - b["start"]) // SECOND),
        column.time("ended_at", _ended_at, EXACT_RANGE | {"isnull"}, time_format="micros_z"),
        column.numeric_id("group_id", lambda v, b: group_ids(_groups(v, b)), ANY_ID),
        column.text("group_name", lambda v, b: group_names(v, _groups(v, b), b["start"])),
        column.real("percent_data_cap", lambda v, b: np.round(_data_usage(v, b) / 5e9 * 100, 3)),
        column.text(
            "previous_wan_interface", lambda v, b: names_of(v, b["row"], b["from_slot"], b["start"])
        ),
        column.real("previous_wan_priority", lambda _v, b: 1.0 + b["from_slot"]),
        column.numeric_id("router_id", lambda v, b: v.world.fleet.router_id[b["row"]], ANY_ID),
        column.text("router_name", lambda v, b: names(v, b["row"], b["start"])),
        column.time("started_at", lambda _v, b: b["start"], EXACT_RANGE, time_format="micros_z"),
        column.text("tenant_id", constant(str(ACCOUNTS[0].id))),
        column.time("updated_at", _until, EXACT_RANGE, time_format="micros_z"),
        column.text("uuid", _uuids),
    ),
)
