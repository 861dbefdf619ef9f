"""The action, actor and object of activity log records (service contract, activity_logs)."""

from typing import Any, Final

import numpy as np

from fleetlake.simulator import stamps, timeuuids
from fleetlake.simulator.blocks import Block
from fleetlake.simulator.columns import Read
from fleetlake.simulator.identifiers import group_ids
from fleetlake.simulator.organisation import ACCOUNTS
from fleetlake.simulator.view import View
from fleetlake.simulator.vocabulary import ACTION_TYPES, ACTOR_TYPES, OBJECT_TYPES
from fleetlake.simulator.wire import NEWLINE
from fleetlake.simulator.world.activity import (
    GROUP_UPDATED,
    LOCKED,
    LOGIN,
    LOGIN_FAILED,
    LOGOUT,
    REGISTERED,
    SETTINGS,
    USER_UPDATED,
    WRITTEN,
)
from fleetlake.simulator.world.changes import SETTINGS as SETTING_NAMES

_ACTION: Final = {
    LOGIN: "login",
    LOGOUT: "logout",
    LOGIN_FAILED: "login failed",
    LOCKED: "account locked",
    SETTINGS: "update",
    REGISTERED: "register",
    GROUP_UPDATED: "update",
    USER_UPDATED: "update",
}
_OBJECT: Final = {SETTINGS: "router", REGISTERED: "router", GROUP_UPDATED: "group"}
_CONTROLS_ONE_IN: Final = 300


def code(names: tuple[str, ...], name: str) -> int:
    """Return the number of an activity type: its place in the contract's list, from 1."""
    return names.index(name) + 1


def _rows(block: Block) -> Any:
    """Iterate over (kind, router, account, slot, person, salt)."""
    salt = (block["tail"] >> np.uint64(20)) % np.uint64(1 << 20)
    names = ("kind", "router", "account", "slot", "value")
    return zip(*(block[name].tolist() for name in names), salt.tolist(), strict=True)


def actions(view: View, block: Block) -> list[dict[str, Any]]:
    """Return each record's `action`, with the entity before and after."""

    def make() -> list[dict[str, Any]]:
        ids = timeuuids.spell(block["time"], block["tail"])
        times = stamps.spell(block["time"], "micros_z")
        return [
            _action(view, str(identity), str(time), *row)
            for identity, time, row in zip(ids, times, _rows(block), strict=True)
        ]

    return block.once("actions", make)


def _action(
    view: View,
    identity: str,
    time: str,
    kind: int,
    router: int,
    account: int,
    slot: int,
    person: int,
    salt: int,
) -> dict[str, Any]:
    if kind >= WRITTEN:
        return {"id": identity, "timestamp": time, **view.ledger.deeds[person].action}
    before, after = _entities(view, kind, router, account, slot, person, salt)
    name = _ACTION[kind]
    return {
        "id": identity,
        "timestamp": time,
        "type": code(ACTION_TYPES, name),
        "type_name": name,
        "before": before,
        "after": after,
    }


def _entities(
    view: View, kind: int, router: int, account: int, slot: int, person: int, salt: int
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the changed entity before and after."""
    if kind == SETTINGS:
        entity = {"id": str(view.world.fleet.router_id[router]), "setting": SETTING_NAMES[slot]}
        value = f"value-{salt}"
        if salt % _CONTROLS_ONE_IN == 0 or SETTING_NAMES[slot] == "ca_print" and salt % 40 == 0:
            value = (
                f"-----BEGIN CERTIFICATE-----{NEWLINE}{salt:x}{NEWLINE}-----END CERTIFICATE-----"
            )
        return {**entity, "value": f"value-{salt // 7}"}, {**entity, "value": value}
    if kind == REGISTERED:
        entity = {"id": str(view.world.fleet.router_id[router])}
        return {**entity, "state": "offline"}, {**entity, "state": "online"}
    if kind == GROUP_UPDATED:
        entity = {"id": str(int(group_ids(np.array([slot]))[0]))}
        return {**entity, "revision": salt // 2}, {**entity, "revision": salt // 2 + 1}
    if kind == USER_UPDATED:
        someone = view.world.people[person]
        entity = {"id": str(someone.id), "email": someone.email}
        return {**entity, "time_zone": "UTC"}, {**entity, "time_zone": "America/Denver"}
    owner = ACCOUNTS[account]
    entity = {"id": str(owner.id), "name": owner.name}
    return entity, entity


def actors(view: View, block: Block) -> list[dict[str, Any]]:
    """Return each record's `actor`: a person, or the router itself."""
    return block.once("actors", lambda: [_actor(view, *row) for row in _rows(block)])


def _actor(
    view: View, kind: int, router: int, _account: int, _slot: int, person: int, _salt: int
) -> dict[str, Any]:
    if kind >= WRITTEN:
        return view.ledger.deeds[person].actor
    if kind == REGISTERED:
        return _party(ACTOR_TYPES, "router", str(view.world.fleet.router_id[router]), "")
    someone = view.world.people[person]
    return _party(ACTOR_TYPES, "sso user", str(someone.id), someone.email)


def _party(names: tuple[str, ...], name: str, identity: str, email: str) -> dict[str, Any]:
    return {"id": identity, "type": code(names, name), "type_name": name, "email": email}


def objects(view: View, block: Block) -> list[dict[str, Any]]:
    """Return each record's `object`; a user's carries `role` and `user`."""
    return block.once("objects", lambda: [_object(view, *row) for row in _rows(block)])


def _object(
    view: View, kind: int, router: int, _account: int, slot: int, person: int, _salt: int
) -> dict[str, Any]:
    if kind >= WRITTEN:
        return view.ledger.deeds[person].object
    name = _OBJECT.get(kind, "sso user")
    shape = {"type": code(OBJECT_TYPES, name), "type_name": name}
    if name == "router":
        return {"id": str(view.world.fleet.router_id[router]), **shape}
    if name == "group":
        return {"id": str(int(group_ids(np.array([slot]))[0])), **shape}
    someone = view.world.people[person]
    return {
        "id": str(someone.id),
        **shape,
        "role": {"id": "1", "name": "Administrator"},
        "user": {"id": str(someone.id), "email": someone.email},
    }


_PARTS: Final = {"action": actions, "actor": actors, "object": objects}


def member(part: str, name: str) -> Read:
    """Return a reader of one member of each record's action, actor or object, as text."""

    def read(view: View, block: Block) -> list[str]:
        return [str(entity[name]) for entity in _PARTS[part](view, block)]

    return read
