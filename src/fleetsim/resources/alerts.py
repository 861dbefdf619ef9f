"""alerts and router_alerts: what the service raised, newest first."""

from typing import Any

import numpy as np

from fleetsim import resource_columns as column
from fleetsim.alert_types import ALERT_TYPES
from fleetsim.blocks import Block
from fleetsim.definition import Resource
from fleetsim.resource_columns import EXACT_IN, EXACT_RANGE, RANGE, values
from fleetsim.resources.accounts import ACCOUNT_IDS
from fleetsim.resources.alert_texts import detection_times, friendly, information
from fleetsim.resources.daily import daily_series, in_scope
from fleetsim.rules import wanted
from fleetsim.units import DAY, NULL, Ints
from fleetsim.view import View
from fleetsim.world import World
from fleetsim.world.alerting import alerts_of

_NAMES = np.array(ALERT_TYPES, dtype=object)


def _generate(world: World, routers: Ints, day: int, accounts: bool) -> Block:
    return alerts_of(world, routers, day, accounts=accounts)


def _raised(view: View, day: int) -> Block | None:
    """Return the alerts of a day that writes and pushes caused."""
    raised = [alert for alert in view.ledger.raised if alert.at // DAY == day]
    if not raised:
        return None
    names = ("at", "router", "account", "kind", "value")
    table = {name: np.array([getattr(alert, name) for alert in raised]) for name in names}
    at = table.pop("at")
    tail = np.array([alert.tail for alert in raised], dtype=np.uint64)
    slot = np.zeros(len(raised), dtype=np.int64)
    return Block({"time": at, "tail": tail, "detected": at, **table, "slot": slot})


def _keep(view: View, block: Block) -> Block:
    """Return the alerts that a rule covers and the caller may see."""
    keep = wanted(view, block)
    if not view.remembered.all():
        keep &= in_scope(view, block)
    return block if keep.all() else block.take(np.flatnonzero(keep))


def _keep_routers(view: View, block: Block) -> Block:
    return _keep(view, block.take(np.flatnonzero(block["router"] >= 0)))


def router_ids(view: View, block: Block) -> Ints:
    """Return router ids; null for rows about an account."""
    router = block["router"]
    return np.where(router < 0, NULL, view.world.fleet.router_id[router])


def _account_ids(_view: View, block: Block) -> Ints:
    """Return account ids: null when `router` has a value."""
    return np.where(block["router"] < 0, ACCOUNT_IDS[block["account"]], NULL)


def _types(_view: View, block: Block) -> Any:
    return _NAMES[block["kind"]]


_NULLABLE = EXACT_IN | {"isnull"}
_CREATED = column.time("created_at", values("time"), RANGE)
_ACCOUNT = column.relation("account", _account_ids, _NULLABLE, to="accounts")
_SHARED = (
    column.uuid("created_at_timeuuid", values("time"), EXACT_RANGE | {"in"}),
    column.text("detected_at", detection_times),
    column.text("friendly_info", friendly),
    column.json("info", information),
)
_TYPE = column.text("type", _types, EXACT_IN)

ALERTS = Resource(
    name="alerts",
    series=daily_series("alerts", _generate, _raised),
    keep=_keep,
    device="router",
    unlimited_in=True,
    expands=("account", "router"),
    columns=(
        _ACCOUNT,
        _CREATED,
        *_SHARED,
        column.relation("router", router_ids, _NULLABLE, to="routers"),
        _TYPE,
    ),
)

ROUTER_ALERTS = Resource(
    name="router_alerts",
    series=daily_series("alerts", _generate, _raised),
    keep=_keep_routers,
    device="router",
    order_by=("created_at_timeuuid",),
    expands=("router",),
    columns=(
        column.time("created_at", values("time"), EXACT_RANGE),
        *_SHARED,
        column.relation("router", router_ids, EXACT_IN, to="routers"),
        _TYPE,
    ),
)
