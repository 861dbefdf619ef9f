"""The forms of the snapshot resources that clients may write."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from fleetsim.answers import one_record
from fleetsim.ledger import Fields
from fleetsim.organisation import ACCOUNTS, ROW_OF_ACCOUNT
from fleetsim.refusals import validation
from fleetsim.resources import RESOURCES
from fleetsim.units import NULL
from fleetsim.writing.readers import (
    WriteContext,
    flag,
    ids_with,
    number,
    optional,
    optional_text,
    raw_value,
    relation,
    router_row,
    text,
    wrong,
)
from fleetsim.writing.snapshot_records import Form

Path = list[str | int]


def settings_pair(_context: WriteContext, name: str, value: Any) -> list[Any]:
    """Read updates and removals; an object alone is updates without removals."""
    if isinstance(value, dict):
        return [value, []]
    if not isinstance(value, list) or [type(part) for part in value] != [dict, list]:
        raise wrong(name, value)
    if not all(_is_path(path) for path in value[1]):
        raise wrong(name, value)
    return value


def _is_path(path: Any) -> bool:
    """Return whether a value names a setting: keys, outermost first."""
    return isinstance(path, list) and path != [] and all(type(key) in (str, int) for key in path)


def merged(stored: list[Any], partial: list[Any]) -> list[Any]:
    """Return settings with a partial change applied (contract, PATCH).

    >>> merged([{"a": {"b": 1, "c": 2}}, []], [{"a": {"b": 3}}, [["a", "c"]]])
    [{'a': {'b': 3}}, [['a', 'c']]]
    """
    updates, removals = stored
    changes, gone = partial
    result = _merge(updates, changes)
    for path in gone:
        result = _without(result, path)
    kept = [path for path in removals if path not in gone and not _holds(changes, path)]
    return [result, [*kept, *gone]]


def _merge(stored: Fields, changes: Fields) -> Fields:
    """Return `stored` with `changes` applied; both arguments stay unchanged."""
    result = dict(stored)
    for key, value in changes.items():
        before = result.get(key)
        if isinstance(before, dict) and isinstance(value, dict):
            result[key] = _merge(before, value)
        else:
            result[key] = value
    return result


def _without(stored: Any, path: Path) -> Any:
    """Return an object without the setting that a path names."""
    key = str(path[0])
    if not isinstance(stored, dict) or key not in stored:
        return stored
    rest = {name: value for name, value in stored.items() if name != key}
    return rest if len(path) == 1 else {**rest, key: _without(stored[key], path[1:])}


def _holds(changes: Any, path: Path) -> bool:
    """Return whether an object sets the setting that a path names, or part of it."""
    for key in path:
        if not isinstance(changes, dict) or str(key) not in changes:
            return False
        changes = changes[str(key)]
    return True


def _may_delete_account(context: WriteContext, identity: int) -> None:
    """Refuse to delete an account that still holds users, devices or accounts."""
    if identity == ACCOUNTS[0].id or identity == context.own_account:
        raise validation("id", "your own account cannot be deleted")
    for resource in ("users", "routers", "accounts"):
        if ids_with(context, resource, "account", identity):
            raise validation("id", f"the account still holds {resource}: remove them first")


ACCOUNT_FORM = Form(
    resource="accounts",
    kind="rome account",
    fields={"account": relation("accounts"), "name": text},
    required=("account", "name"),
    is_about_people=True,
    check=_may_delete_account,
)

USER_FORM = Form(
    resource="users",
    kind="sso user",
    fields={
        "account": relation("accounts"),
        "email": text,
        "username": text,
        "first_name": text,
        "last_name": text,
    },
    required=("email", "first_name", "last_name"),
    is_about_people=True,
    effects=lambda context, identity, _fields: _name_user(context, identity),
)


def _name_user(context: WriteContext, identity: int) -> None:
    """Use the email address as user name if none is given."""
    record = context.writes_to("users").created.get(identity)
    if record is not None:
        record.setdefault("username", record["email"])


def _device_type(context: WriteContext, identity: int, fields: Fields) -> None:
    """Give a created group the device type of its product."""
    record = context.writes_to("groups").created.get(identity)
    if record is not None and "product" in fields:
        record["device_type"] = raw_value(context, "products", fields["product"], "device_type")


GROUP_FORM = Form(
    resource="groups",
    kind="group",
    fields={
        "account": relation("accounts"),
        "name": text,
        "product": relation("products"),
        "target_firmware": relation("firmwares"),
        "configuration": settings_pair,
    },
    required=("name", "product", "target_firmware"),
    defaults={"configuration": [{}, []]},
    effects=_device_type,
)


def _account_of_fleet(context: WriteContext, name: str, value: Any) -> int:
    """Read an account that may have routers: one that a client created has none."""
    identity: int = relation("accounts")(context, name, value)
    if identity not in ROW_OF_ACCOUNT:
        raise validation(name, "the simulator moves routers only to accounts that it began with")
    return identity


def _moved(context: WriteContext, identity: int, fields: Fields) -> None:
    """Update a router's `updated_at`; a move to another group raises an alert.

    A group belongs to an account, so a router that moves to another account leaves its group.
    """
    written = context.writes_to("routers").changed.setdefault(identity, {})
    written["updated_at"] = context.view.now
    row, account = router_row(context, identity)
    if "account" in fields and written.pop("account") != account:
        account = fields["account"]
        moves = context.view.world.fleet.belonging.moves
        moves.append((row, context.view.now, ROW_OF_ACCOUNT[account]))
        written["group"] = fields.get("group", NULL)
    if "group" in fields:
        context.raise_alert("router_group_change", account=account, router=row)


ROUTER_FORM = Form(
    resource="routers",
    kind="router",
    is_movable=True,
    fields={
        "account": _account_of_fleet,
        "name": text,
        "description": optional_text,
        "asset_id": optional_text,
        "custom1": optional_text,
        "custom2": optional_text,
        "group": optional(relation("groups"), NULL),
        "target_firmware": relation("firmwares"),
    },
    effects=_moved,
)


def _placed(context: WriteContext, identity: int, fields: Fields) -> None:
    """Replace the earlier location of a router by one set by hand."""
    locations, table = RESOURCES["locations"], context.writes_to("locations")
    placed = ids_with(context, "locations", "router", fields["router"])
    for earlier in [one for one in placed if one != identity]:
        record = one_record(context.view, locations, str(earlier))
        context.note_deletion("locations", earlier, record)
        if table.created.pop(earlier, None) is None:
            table.deleted.add(earlier)
    table.created[identity] |= {"updated_at": context.view.now, "method": "manual"}
    routers_table = context.writes_to("routers").changed
    routers_table.setdefault(fields["router"], {})["last_known_location"] = identity


def _degrees(bound: float) -> Any:
    """Return a reader of an angle between plus and minus `bound` degrees."""

    def read(context: WriteContext, name: str, value: Any) -> float:
        angle = number(context, name, value)
        if not -bound <= angle <= bound:
            raise validation(name, "out of range", status=400)
        return angle

    return read


def _manual(_context: WriteContext, name: str, value: Any) -> str:
    """Read the `method` of a location: clients can only set `manual`."""
    if value != "manual":
        raise validation(name, "must be manual", status=400)
    return "manual"


LOCATION_FORM = Form(
    resource="locations",
    kind="location",
    fields={
        "account": relation("accounts"),
        "router": relation("routers"),
        "latitude": _degrees(90),
        "longitude": _degrees(180),
        "accuracy": number,
        "method": _manual,
        "altitude_meters": number,
    },
    required=("router", "latitude", "longitude"),
    effects=_placed,
)


def _configured(context: WriteContext, identity: int, fields: Fields) -> None:
    """Increase the version for a new configuration; the device runs it at once."""
    changed = context.writes_to("configuration_managers").changed.setdefault(identity, {})
    if "configuration" in fields:
        version = raw_value(context, "configuration_managers", identity, "version_number")
        changed |= {"version_number": version + 1, "actual": fields["configuration"]}


def _merged_with_stored(context: WriteContext, identity: int, fields: Fields) -> Fields:
    """Return fields whose configuration is the stored one merged with the sent part."""
    if "configuration" not in fields:
        return fields
    stored = raw_value(context, "configuration_managers", identity, "configuration")
    return {**fields, "configuration": merged(stored, fields["configuration"])}


def _partly_configured(context: WriteContext, identity: int, fields: Fields) -> None:
    """Merge a partial change into what the device runs."""
    actual = raw_value(context, "configuration_managers", identity, "actual")
    _configured(context, identity, fields)
    if "configuration" in fields:
        changed = context.writes_to("configuration_managers").changed[identity]
        changed["actual"] = merged(actual, fields["configuration"])


def _without_ca_print(context: WriteContext, name: str, value: Any) -> Any:
    """Read a configuration to patch: enrolment settings may not set `ca_print` to null.

    The Microsoft-style enrolment server is an exception (contract, configuration_managers).
    """
    if any(_nulls_ca_print(part) for part in _objects(value)):
        raise validation(name, "remove the line that sets ca_print to null")
    return settings_pair(context, name, value)


def _objects(value: Any) -> Iterator[Fields]:
    """Yield every object within a JSON value."""
    if isinstance(value, dict):
        yield value
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for part in parts:
        yield from _objects(part)


def _nulls_ca_print(part: Fields) -> bool:
    is_ndes = any(str(item).lower() == "ndes" for item in part.values())
    return "ca_print" in part and part["ca_print"] is None and not is_ndes


CONFIGURATION_FORM = Form(
    resource="configuration_managers",
    kind="router",
    fields={"configuration": settings_pair, "suspended": flag},
    effects=_configured,
)

CONFIGURATION_PATCH_FORM = replace(
    CONFIGURATION_FORM,
    fields={"configuration": _without_ca_print, "suspended": flag},
    prepare=_merged_with_stored,
    effects=_partly_configured,
)
