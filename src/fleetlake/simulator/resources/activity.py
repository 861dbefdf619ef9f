"""activity_logs: who did what to what, newest first, for thirty days."""

import numpy as np

from fleetlake.simulator.blocks import Block
from fleetlake.simulator.columns import EXACT, EXACT_RANGE, Kind, column, values
from fleetlake.simulator.resource import Resource
from fleetlake.simulator.resources.activity_texts import actions, actors, member, objects
from fleetlake.simulator.resources.daily import daily_series, in_scope
from fleetlake.simulator.resources.organisation import ACCOUNT_IDS
from fleetlake.simulator.units import DAY, Ints
from fleetlake.simulator.view import View
from fleetlake.simulator.world import World
from fleetlake.simulator.world.activity import PEOPLE_KINDS, activities_of

RETENTION = 30 * DAY
"""Service contract, Limits."""


def _generate(world: World, routers: Ints, day: int, _accounts: bool) -> Block:
    return activities_of(world, routers, day)


def _keep(view: View, block: Block) -> Block:
    """Return what the caller may see and the service still holds."""
    block = in_scope(view, block)
    keep = np.ones(len(block), dtype=bool)
    if view.retention:
        keep &= block["time"] >= view.now - RETENTION
    if not view.sees_people:
        keep &= ~np.isin(block["kind"], PEOPLE_KINDS)
    return block if keep.all() else block.take(np.flatnonzero(keep))


def _accounts(_view: View, block: Block) -> Ints:
    return np.asarray(ACCOUNT_IDS[block["account"]])


ACTIVITY_LOGS = Resource(
    name="activity_logs",
    series=daily_series("activity_logs", _generate, _keep),
    cursor="action__id",
    columns=(
        column("action", Kind.JSON, actions),
        column("actor", Kind.JSON, actors),
        column("object", Kind.JSON, objects),
        column("account", Kind.RELATION, _accounts, EXACT, to="accounts", hidden=True),
        column("action__id", Kind.UUID, values("time"), EXACT_RANGE, hidden=True),
        column("action__timestamp", Kind.TIME, values("time"), EXACT_RANGE, hidden=True),
        column("created_at", Kind.TIME, values("time"), EXACT_RANGE, hidden=True),
        column("action__type", Kind.TEXT, member("action", "type"), EXACT, hidden=True),
        column("actor__id", Kind.TEXT, member("actor", "id"), EXACT, hidden=True),
        column("actor__type", Kind.TEXT, member("actor", "type"), EXACT, hidden=True),
        column("object__id", Kind.TEXT, member("object", "id"), EXACT, hidden=True),
        column("object__type", Kind.TEXT, member("object", "type"), EXACT, hidden=True),
    ),
)
