"""The table of writes: which function handles which resource and method."""

import inspect
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from fleetsim.callers import Caller
from fleetsim.ledger import Fields
from fleetsim.refusals import forbidden, method_not_allowed
from fleetsim.simulation import Simulation
from fleetsim.view import View
from fleetsim.writing import actions, alert_settings
from fleetsim.writing.forms import (
    ACCOUNT_FORM,
    CONFIGURATION_FORM,
    CONFIGURATION_PATCH_FORM,
    GROUP_FORM,
    LOCATION_FORM,
    ROUTER_FORM,
    USER_FORM,
)
from fleetsim.writing.readers import WriteAnswer, WriteContext, ids_with, read_body, record_id
from fleetsim.writing.snapshot_records import change, create, delete, existing


def delete_account(context: WriteContext, key: str) -> WriteAnswer:
    """Delete an account without users, together with its groups and locations."""
    identity = existing(ACCOUNT_FORM, context, key)
    ACCOUNT_FORM.check(context, identity)
    for form in (GROUP_FORM, LOCATION_FORM):
        for owned in ids_with(context, form.resource, "account", identity):
            delete(form, context, str(owned))
    return delete(ACCOUNT_FORM, context, key)


def delete_router(context: WriteContext, key: str) -> WriteAnswer:
    """Unregister a router, together with all its data.

    Views no longer have it in scope, so none of its data is served.
    """
    written = delete(ROUTER_FORM, context, key)
    created = context.writes_to("locations").created
    for number in [n for n, record in created.items() if record["router"] == record_id(key)]:
        del created[number]
    return written


Answer = WriteAnswer | Awaitable[WriteAnswer]
Post = Callable[[WriteContext, Fields], Answer]
Change = Callable[[WriteContext, str, Fields], WriteAnswer]
Delete = Callable[[WriteContext, str], WriteAnswer]


_POSTS: Final[dict[str, Post]] = {
    "accounts": partial(create, ACCOUNT_FORM),
    "alert_push_destinations": alert_settings.create_destination,
    "alert_rules": alert_settings.create_rule,
    "groups": partial(create, GROUP_FORM),
    "locations": partial(create, LOCATION_FORM),
    "reboot_activity": actions.reboot,
    "speed_test": actions.start_speed_test,
    "test_alert_push_destinations": actions.test_destination,
    "users": partial(create, USER_FORM),
}
_CHANGES: Final[dict[tuple[str, str], Change]] = {
    ("accounts", "PUT"): partial(change, ACCOUNT_FORM),
    ("alert_push_destinations", "PATCH"): alert_settings.change_destination,
    ("alert_rules", "PATCH"): alert_settings.change_rule,
    ("configuration_managers", "PATCH"): partial(change, CONFIGURATION_PATCH_FORM),
    ("configuration_managers", "PUT"): partial(change, CONFIGURATION_FORM),
    ("groups", "PATCH"): partial(change, GROUP_FORM),
    ("groups", "PUT"): partial(change, GROUP_FORM),
    ("routers", "PUT"): partial(change, ROUTER_FORM),
    ("users", "PUT"): partial(change, USER_FORM),
}
_DELETES: Final[dict[str, Delete]] = {
    "accounts": delete_account,
    "alert_push_destinations": alert_settings.delete_destination,
    "alert_rules": alert_settings.delete_rule,
    "groups": partial(delete, GROUP_FORM),
    "locations": partial(delete, LOCATION_FORM),
    "routers": delete_router,
    "users": partial(delete, USER_FORM),
}


async def answer_write(
    simulation: Simulation,
    caller: Caller,
    view: View,
    *,
    path: str,
    method: str,
    parts: list[str],
    body: bytes,
) -> WriteAnswer:
    """Execute one write.

    Raises: Refusal: 405 for a method that the path does not allow, 403 for a role that may not
    write, validation and server_error for a bad body.
    """
    context = WriteContext(simulation, caller, view)
    answer = _bind(context, method, parts, body)
    if answer is None:
        raise method_not_allowed(path, method)
    if not caller.role.may_write:
        raise forbidden()
    written = answer()
    return await written if inspect.isawaitable(written) else written


def _bind(
    context: WriteContext, method: str, parts: list[str], body: bytes
) -> Callable[[], Answer] | None:
    """Return the function of a write, or None if the path does not allow the method."""
    match method, parts:
        case "POST", [name] if name in _POSTS:
            return lambda: _POSTS[name](context, read_body(body))
        case "PUT" | "PATCH", [name, key] if (name, method) in _CHANGES:
            return lambda: _CHANGES[name, method](context, key, read_body(body))
        case "DELETE", [name, key] if name in _DELETES:
            return lambda: _DELETES[name](context, key)
    return None
