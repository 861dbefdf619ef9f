"""activity_logs: who changed what, newest first, for thirty days."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np

from fleetsim import resource_columns as column
from fleetsim import stamps, timeuuids
from fleetsim.activity_types import ACTION_TYPES, ACTOR_TYPES, OBJECT_TYPES
from fleetsim.blocks import Block, once
from fleetsim.definition import Resource
from fleetsim.identifiers import group_ids
from fleetsim.organisation import ACCOUNTS
from fleetsim.resource_columns import EXACT, EXACT_RANGE, Read, values
from fleetsim.resources.accounts import ACCOUNT_IDS
from fleetsim.resources.alert_texts import mac_address
from fleetsim.resources.daily import daily_series
from fleetsim.resources.routers import names
from fleetsim.units import DAY, NULL, SECOND, Ints
from fleetsim.view import View
from fleetsim.wire import NEWLINE
from fleetsim.world import World
from fleetsim.world.activity import (
    BELONGING,
    GROUP_UPDATED,
    LOCKED,
    LOGIN,
    LOGIN_FAILED,
    LOGOUT,
    PEOPLE_KINDS,
    REGISTERED,
    SETTINGS,
    UNREGISTERED,
    USER_UPDATED,
    WRITTEN,
    WRITTEN_PEOPLE,
    activities_of,
)
from fleetsim.world.running import SETTINGS as SETTING_NAMES

_ACTION: Final = {
    LOGIN: "login",
    LOGOUT: "logout",
    LOGIN_FAILED: "login failed",
    LOCKED: "account locked",
    SETTINGS: "update",
    REGISTERED: "register",
    GROUP_UPDATED: "update",
    USER_UPDATED: "update",
    BELONGING: "update",
    UNREGISTERED: "unregister",
}
_OBJECT: Final = {
    SETTINGS: "router",
    REGISTERED: "router",
    BELONGING: "router",
    UNREGISTERED: "router",
    GROUP_UPDATED: "group",
}
_CERTIFIED_ONE_IN: Final = 500
"""Changes whose new value carries raw control characters."""


def code(names: tuple[str, ...], name: str) -> int:
    """Return the number of an activity type: its position in the contract's list, from 1."""
    return names.index(name) + 1


class _Entry(NamedTuple):
    """One generated or written activity; `salt` varies its invented values."""

    kind: int
    router: int
    account: int
    slot: int
    person: int
    at: int
    salt: int


def _entries(block: Block) -> list[_Entry]:
    salt = (block["tail"] >> np.uint64(20)) % np.uint64(1 << 20)
    names = ("kind", "router", "account", "slot", "value", "time")
    columns = (*(block[name].tolist() for name in names), salt.tolist())
    return [_Entry(*row) for row in zip(*columns, strict=True)]


@once
def actions(view: View, block: Block) -> list[dict[str, Any]]:
    """Return each record's `action`, with the entity before and after."""
    ids = timeuuids.to_text(block["time"], block["tail"])
    times = stamps.to_text(block["time"], "micros_z")
    rows = zip(ids, times, _entries(block), strict=True)
    return [{"id": i, "timestamp": t, **_action(view, entry)} for i, t, entry in rows]


def _action(view: View, entry: _Entry) -> dict[str, Any]:
    if entry.kind >= WRITTEN:
        return view.ledger.activity[entry.person].action
    name = _ACTION[entry.kind]
    named = {"type": code(ACTION_TYPES, name), "type_name": name}
    if entry.kind == REGISTERED:
        return {**named, "diff": _diff_of_connection(entry)}
    before, after = _ENTITIES.get(entry.kind, _of_account)(view, entry)
    return {**named, "before": before, "after": after}


def _diff_of_connection(entry: _Entry) -> list[Any]:
    """Return what a router reports as changed: `[{updates}, [removals]]` (observed)."""
    removals = [["offline", "reason"]] if entry.salt % 2 else []
    return [{"state": "online"}, removals]


_Entities = tuple[dict[str, Any], dict[str, Any]]
"""The changed entity before and after."""


def _of_settings(view: View, entry: _Entry) -> _Entities:
    setting, salt = SETTING_NAMES[entry.slot], entry.salt
    entity = {"id": str(view.world.fleet.router_id[entry.router]), "setting": setting}
    value = f"value-{salt}"
    if salt % _CERTIFIED_ONE_IN == 0:
        body = f"{NEWLINE}{salt:x}{NEWLINE}"
        value = f"-----BEGIN CERTIFICATE-----{body}-----END CERTIFICATE-----"
    return {**entity, "value": f"value-{salt // 7}"}, {**entity, "value": value}


def _of_unregistering(view: View, entry: _Entry) -> _Entities:
    return {"id": str(view.world.fleet.router_id[entry.router])}, {}


def _of_belonging(view: View, entry: _Entry) -> _Entities:
    """Return the router's account, group and name; `slot` is when they changed, in seconds."""
    before, after = (
        _belonging(view, entry.router, (entry.slot + later) * SECOND) for later in (0, 1)
    )
    return before, after


def _belonging(view: View, router: int, instant: int) -> dict[str, Any]:
    fleet, row, at = view.world.fleet, np.array([router]), np.array([instant])
    group = int(group_ids(fleet.belonging.group_at(row, at))[0])
    return {
        "id": str(fleet.router_id[router]),
        "account": str(ACCOUNTS[int(fleet.belonging.account_at(row, at)[0])].id),
        "group": None if group == NULL else str(group),
        "name": names(view, row, at)[0],
    }


def _of_group(_view: View, entry: _Entry) -> _Entities:
    entity, revision = {"id": _group_id(entry)}, entry.salt // 2
    return {**entity, "revision": revision}, {**entity, "revision": revision + 1}


def _of_user(view: View, entry: _Entry) -> _Entities:
    someone = view.world.people[entry.person]
    entity = {"id": str(someone.id), "email": someone.email}
    return {**entity, "time_zone": "UTC"}, {**entity, "time_zone": "America/Denver"}


def _of_account(_view: View, entry: _Entry) -> _Entities:
    owner = ACCOUNTS[entry.account]
    entity = {"id": str(owner.id), "name": owner.name}
    return entity, entity


def _group_id(entry: _Entry) -> str:
    return str(int(group_ids(np.array([entry.slot]))[0]))


_ENTITIES: Final[dict[int, Callable[[View, _Entry], _Entities]]] = {
    SETTINGS: _of_settings,
    GROUP_UPDATED: _of_group,
    USER_UPDATED: _of_user,
    BELONGING: _of_belonging,
    UNREGISTERED: _of_unregistering,
}


@once
def actors(view: View, block: Block) -> list[dict[str, Any]]:
    """Return each record's `actor`: a person, or the router itself."""
    return [_actor(view, entry) for entry in _entries(block)]


def _actor(view: View, entry: _Entry) -> dict[str, Any]:
    if entry.kind >= WRITTEN:
        return view.ledger.activity[entry.person].actor
    if entry.kind == REGISTERED:
        return _router(view, entry)
    someone = view.world.people[entry.person]
    return _party("sso user", str(someone.id), someone.email)


def _router(view: View, entry: _Entry) -> dict[str, Any]:
    """Return a router as the actor: with its MAC address and name, without e-mail (observed)."""
    row = np.array([entry.router])
    return {
        "id": str(view.world.fleet.router_id[entry.router]),
        "type": code(ACTOR_TYPES, "router"),
        "mac": mac_address(int(view.world.fleet.hardware_id[entry.router]), 0),
        "name": names(view, row, np.array([entry.at]))[0],
    }


def _party(name: str, identity: str, email: str) -> dict[str, Any]:
    return {"id": identity, "type": code(ACTOR_TYPES, name), "type_name": name, "email": email}


@once
def objects(view: View, block: Block) -> list[dict[str, Any]]:
    """Return each record's `object`; a user's carries `role` and `user`."""
    return [_object(view, entry) for entry in _entries(block)]


def _object(view: View, entry: _Entry) -> dict[str, Any]:
    if entry.kind >= WRITTEN:
        return view.ledger.activity[entry.person].object
    name = _OBJECT.get(entry.kind, "sso user")
    shape = {"type": code(OBJECT_TYPES, name), "type_name": name}
    if name == "router":
        return {"id": str(view.world.fleet.router_id[entry.router]), **shape}
    if name == "group":
        return {"id": _group_id(entry), **shape}
    someone = view.world.people[entry.person]
    return {
        "id": str(someone.id),
        **shape,
        "role": {"id": "1", "name": "Administrator"},
        "user": {"id": str(someone.id), "email": someone.email},
    }


_PARTS: Final = {"action": actions, "actor": actors, "object": objects}


def member(part: str, name: str) -> Read:
    """Return a reader of one member of each record's action, actor or object, as text."""
    return lambda view, block: [str(entity[name]) for entity in _PARTS[part](view, block)]


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
