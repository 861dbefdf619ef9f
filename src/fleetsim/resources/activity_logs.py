"""activity_logs: who changed what, newest first, for thirty days."""

import numpy as np

from fleetsim import resource_columns as column
from fleetsim.blocks import Block
from fleetsim.definition import Resource
from fleetsim.resource_columns import EXACT, EXACT_RANGE, values
from fleetsim.resources.accounts import ACCOUNT_IDS
from fleetsim.resources.activity_texts import actions, actors, member, objects
from fleetsim.resources.daily import daily_series
from fleetsim.units import DAY, Ints
from fleetsim.view import View
from fleetsim.world import World
from fleetsim.world.activity import PEOPLE_KINDS, WRITTEN, WRITTEN_PEOPLE, activities_of

RETENTION = 30 * DAY
"""Service contract, Limits."""


def _generate(world: World, routers: Ints, day: int, _accounts: bool) -> Block:
    return activities_of(world, routers, day)


def _written(view: View, day: int) -> Block | None:
    """Return the activities of a day that clients' writes caused."""
    actions = view.ledger.activity
    indexes = np.array(
        [n for n, entry in enumerate(actions) if entry.at // DAY == day], dtype=np.int64
    )
    if len(indexes) == 0:
        return None
    chosen = [actions[index] for index in indexes.tolist()]
    at = np.array([entry.at for entry in chosen])
    return Block(
        {
            "time": at,
            "tail": np.array([entry.tail for entry in chosen], dtype=np.uint64),
            "detected": at,
            "router": np.full(len(indexes), -1),
            "account": np.array([entry.account for entry in chosen]),
            "kind": np.array([WRITTEN_PEOPLE if d.is_about_people else WRITTEN for d in chosen]),
            "slot": np.zeros(len(indexes), dtype=np.int64),
            "value": indexes,
        }
    )


def _keep(view: View, block: Block) -> Block:
    """Return the activities that the caller may see and that the service still keeps."""
    keep = np.isin(block["account"], list(view.accounts))
    if view.retention:
        keep &= block["time"] >= view.now - RETENTION
    if not view.sees_people:
        keep &= ~np.isin(block["kind"], PEOPLE_KINDS)
    return block if keep.all() else block.take(np.flatnonzero(keep))


def _accounts(_view: View, block: Block) -> Ints:
    return np.asarray(ACCOUNT_IDS[block["account"]])


ACTIVITY_LOGS = Resource(
    name="activity_logs",
    series=daily_series("activity_logs", _generate, _written),
    keep=_keep,
    cursor="action__id",
    columns=(
        column.json("action", actions),
        column.json("actor", actors),
        column.json("object", objects),
        column.relation("account", _accounts, EXACT, to="accounts", hidden=True),
        column.uuid("action__id", values("time"), EXACT_RANGE, hidden=True),
        column.time("action__timestamp", values("time"), EXACT_RANGE, hidden=True),
        column.time("created_at", values("time"), EXACT_RANGE, hidden=True),
        column.text("action__type", member("action", "type"), EXACT, hidden=True),
        column.text("actor__id", member("actor", "id"), EXACT, hidden=True),
        column.text("actor__type", member("actor", "type"), EXACT, hidden=True),
        column.text("object__id", member("object", "id"), EXACT, hidden=True),
        column.text("object__type", member("object", "type"), EXACT, hidden=True),
    ),
)
