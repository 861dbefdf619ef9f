"""activity_logs: who changed what, newest first, for thirty days."""

import numpy as np

from fleetsim.blocks import Block
from fleetsim.definition import Resource
from fleetsim.resource_columns import EXACT, EXACT_RANGE, ColumnKind, column, values
from fleetsim.resources.accounts import ACCOUNT_IDS
from fleetsim.resources.activity_texts import actions, actors, member, objects
from fleetsim.resources.daily import daily_series
from fleetsim.units import DAY, Ints
from fleetsim.view import View
from fleetsim.world import World
from fleetsim.world.activity import (
    PEOPLE_KINDS,
    WRITTEN,
    WRITTEN_PEOPLE,
    activities_of,
)

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
        column("action", ColumnKind.JSON, actions),
        column("actor", ColumnKind.JSON, actors),
        column("object", ColumnKind.JSON, objects),
        column("account", ColumnKind.RELATION, _accounts, EXACT, to="accounts", hidden=True),
        column("action__id", ColumnKind.UUID, values("time"), EXACT_RANGE, hidden=True),
        column("action__timestamp", ColumnKind.TIME, values("time"), EXACT_RANGE, hidden=True),
        column("created_at", ColumnKind.TIME, values("time"), EXACT_RANGE, hidden=True),
        column("action__type", ColumnKind.TEXT, member("action", "type"), EXACT, hidden=True),
        column("actor__id", ColumnKind.TEXT, member("actor", "id"), EXACT, hidden=True),
        column("actor__type", ColumnKind.TEXT, member("actor", "type"), EXACT, hidden=True),
        column("object__id", ColumnKind.TEXT, member("object", "id"), EXACT, hidden=True),
        column("object__type", ColumnKind.TEXT, member("object", "type"), EXACT, hidden=True),
    ),
)
