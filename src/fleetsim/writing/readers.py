"""Readers of the members of a body; they refuse missing, unknown and invalid members."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import UnionType
from typing import Any

import numpy as np
import orjson

from fleetsim.activity_types import ACTION_TYPES, ACTOR_TYPES, OBJECT_TYPES
from fleetsim.alert_types import CODE
from fleetsim.blocks import Block
from fleetsim.callers import Caller
from fleetsim.ledger import ActivityEntry, Deletion, Fields, ResourceWrites
from fleetsim.list_requests import LONGEST_NUMBER, Condition, all_of
from fleetsim.organisation import ACCOUNTS, ROOT, ROW_OF_ACCOUNT
from fleetsim.refusals import not_found, server_error, validation
from fleetsim.resources import RESOURCES
from fleetsim.resources.accounts import account_of
from fleetsim.resources.activity_logs import code
from fleetsim.simulation import Simulation
from fleetsim.view import View
from fleetsim.wire import parse_json


@dataclass(frozen=True)
class WriteAnswer:
    """The response to a write: a status, and a JSON body or an empty one."""

    status: int
    body: Fields | None = None


@dataclass(frozen=True)
class WriteContext:
    """One write in progress."""

    simulation: Simulation
    caller: Caller
    view: View

    @property
    def own_account(self) -> int:
        """Return the id of the account in which the caller's keys were created."""
        return ACCOUNTS[self.caller.account].id

    def writes_to(self, resource: str) -> ResourceWrites:
        """Return what has been written to a resource."""
        return self.view.ledger.writes_to(resource)

    def log(
        self,
        action: str,
        kind: str,
        subject: Fields,
        *,
        before: Fields,
        after: Fields,
        account: int,
        is_about_people: bool = False,
    ) -> None:
        """Add an entry to the activity log; `account` is an id."""
        ledger = self.view.ledger
        actor_type, key = "api key", self.caller.name
        ledger.activity.append(
            ActivityEntry(
                at=self.view.now,
                tail=ledger.next_tail(),
                account=self.account_row(account),
                is_about_people=is_about_people,
                action={
                    "type": code(ACTION_TYPES, action),
                    "type_name": action,
                    "before": before,
                    "after": after,
                },
                actor={
                    "id": key,
                    "type": code(ACTOR_TYPES, actor_type),
                    "type_name": actor_type,
                    "email": "",
                },
                object={**subject, "type": code(OBJECT_TYPES, kind), "type_name": kind},
            )
        )

    def note_deletion(self, resource: str, identity: Any, record: Fields) -> None:
        """Store a record as it was last served, for the truth about deletions."""
        gone = Deletion(self.view.now, resource, str(identity), record)
        self.view.ledger.deletions.append(gone)

    def account_row(self, account: int) -> int:
        """Return the row of an account id; for a created account, its parent's row."""
        if account in ROW_OF_ACCOUNT:
            return ROW_OF_ACCOUNT[account]
        created = self.writes_to("accounts").created.get(account)
        return ROOT if created is None else self.account_row(created["account"])

    def raise_alert(self, name: str, *, account: int, router: int = -1, value: int = 0) -> None:
        """Raise an alert about a router row, or about an account id."""
        row = self.account_row(account)
        self.view.ledger.raise_alert(self.view.now, CODE[name], row, router=router, value=value)


def record_id(key: str) -> int:
    """Return a record id from a path.

    Raises: Refusal (404) if it cannot be one.
    """
    if not key.isascii() or not key.isdigit() or len(key) > LONGEST_NUMBER:
        raise not_found()
    return int(key)


def subject_of(identity: Any, name: str | None = None) -> Fields:
    """Return the `object` members that identify the record a write changed."""
    return {"id": str(identity)} if name is None else {"id": str(identity), "name": name}


Reader = Callable[[WriteContext, str, Any], Any]
"""Returns a member's raw value. Raises: Refusal (validation)."""


def read_body(body: bytes) -> Fields:
    """Return a body's JSON object.

    Raises: Refusal: server_error with the parser's text for malformed JSON (service contract,
    Errors), validation for JSON that is not an object or is nested too deeply.
    """
    try:
        value = parse_json(body)
    except orjson.JSONDecodeError as error:
        raise server_error(str(error)) from None
    if not isinstance(value, dict):
        raise validation("body", "must be an object", status=400)
    return value


def read_fields(
    context: WriteContext, body: Fields, readers: Mapping[str, Reader], required: tuple[str, ...]
) -> Fields:
    """Return the raw fields of a body: required ones present, unknown ones refused."""
    for name in required:
        if name not in body:
            raise validation(name, "this field is required")
    for name in body:
        if name not in readers:
            raise validation(name, "no such field, or it is read only")
    return {name: readers[name](context, name, value) for name, value in body.items()}


def wrong(name: str, value: Any) -> Exception:
    """Return the refusal of a value of the wrong type."""
    return validation(name, f"invalid value {value!r}", status=400)


def text(_context: WriteContext, name: str, value: Any) -> str:
    """Read a string that is not blank."""
    if not isinstance(value, str) or not value.strip():
        raise wrong(name, value)
    return value


def _of_type(kind: type | UnionType) -> Reader:
    """Return a reader of values of a type."""

    def read(_context: WriteContext, name: str, value: Any) -> Any:
        if not isinstance(value, kind):
            raise wrong(name, value)
        return value

    return read


flag = _of_type(bool)
object_of = _of_type(dict)
optional_object = _of_type(dict | None)
optional_text = _of_type(str | None)


def number(_context: WriteContext, name: str, value: Any) -> float:
    """Read a number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise wrong(name, value)
    return float(value)


def relation(resource: str) -> Reader:
    """Return a reader of a related record, given by URL or id, that the caller can see."""

    def read(context: WriteContext, name: str, value: Any) -> int:
        identity = _identity(name, value)
        if not exists(context, resource, identity):
            raise validation(name, f"no such record {value!r}")
        return identity

    return read


def optional(reader: Reader, null: Any) -> Reader:
    """Return a reader that also accepts null."""
    return lambda context, name, value: null if value is None else reader(context, name, value)


def ids_of(resource: str) -> Reader:
    """Return a reader of a list of ids of records the caller can see."""
    one = relation(resource)

    def read(context: WriteContext, name: str, value: Any) -> list[int]:
        if not isinstance(value, list):
            raise wrong(name, value)
        return [one(context, name, item) for item in value]

    return read


def _identity(name: str, value: Any) -> int:
    """Return an id given as a number, digits, or a URL."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise wrong(name, value)
    digits = str(value).rstrip("/").rpartition("/")[2]
    if not digits.isascii() or not digits.isdigit() or len(digits) > LONGEST_NUMBER:
        raise wrong(name, value)
    return int(digits)


def _rows_with(context: WriteContext, resource: str, field: str, value: int) -> Block:
    """Return the records of a snapshot resource that the caller can see, by a field's value."""
    target = RESOURCES[resource]
    wanted = Condition(target.by_name[field], "exact", value)
    return all_of(context.view, [wanted], target.snapshot(context.view))


def ids_with(context: WriteContext, resource: str, field: str, value: int) -> list[int]:
    """Return the ids of the records that the caller can see, by the value of a field."""
    block = _rows_with(context, resource, field, value)
    return [int(one) for one in RESOURCES[resource].by_name["id"].read(context.view, block)]


def exists(context: WriteContext, resource: str, identity: int) -> bool:
    """Return whether the caller can see a record of a snapshot resource."""
    return len(_rows_with(context, resource, RESOURCES[resource].key, identity)) > 0


def router_row(context: WriteContext, identity: int) -> tuple[int, int]:
    """Return a router's row and the id of its account."""
    row = int(context.view.world.fleet.router_ids.rows(np.array([identity]))[0])
    return row, account_of(context.view, row)


def raw_value(context: WriteContext, resource: str, identity: int, field: str) -> Any:
    """Return the raw value of one field of an existing record."""
    target = RESOURCES[resource]
    block = _rows_with(context, resource, target.key, identity)
    value = target.by_name[field].read(context.view, block)[0]
    return value.item() if isinstance(value, np.generic) else value
