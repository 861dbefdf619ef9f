"""Creating, changing and deleting records of snapshot resources."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from fleetsim.answers import one_record
from fleetsim.ledger import Fields
from fleetsim.refusals import not_found
from fleetsim.resources import RESOURCES
from fleetsim.writing.readers import (
    Reader,
    WriteAnswer,
    WriteContext,
    exists,
    raw_value,
    read_fields,
    record_id,
    subject_of,
)

_FIRST_CREATED_ID: Final = 900_000_000
"""Higher than all ids of the world, so that created records come last in id order."""

Check = Callable[[WriteContext, int], None]
Prepare = Callable[[WriteContext, int, Fields], Fields]


def nothing_to_check(_context: WriteContext, _identity: int) -> None:
    """Refuse nothing."""


def as_sent(_context: WriteContext, _identity: int, fields: Fields) -> Fields:
    """Return the fields as sent: the default of `Form.prepare`."""
    return fields


@dataclass(frozen=True, kw_only=True)
class Form:
    """How one resource is written.

    `fields` are the readers of its writable members; `required` names those that a POST must have.
    A change may name another account only if `is_movable`. `kind` is its object type in the
    activity log. `defaults` fill a created record. `check` may refuse a deletion. `prepare`
    converts the fields read to those stored. `effects` run after a change.
    """

    resource: str
    kind: str
    fields: dict[str, Reader]
    required: tuple[str, ...] = ()
    defaults: Fields = field(default_factory=dict)
    is_about_people: bool = False
    is_movable: bool = False
    check: Check = nothing_to_check
    prepare: Prepare = as_sent
    effects: Callable[[WriteContext, int, Fields], None] = lambda _context, _identity, _changes: (
        None
    )


def create(form: Form, context: WriteContext, body: Fields) -> WriteAnswer:
    """Create a record in the named account, by default the caller's (contract, Endpoints)."""
    fields = {"account": context.own_account, **form.defaults}
    fields |= read_fields(context, body, form.fields, form.required)
    identity = _FIRST_CREATED_ID + context.view.ledger.next_serial()
    context.writes_to(form.resource).created[identity] = {**fields, "id": identity}
    form.effects(context, identity, fields)
    record = _record(form, context, identity)
    _log(form, context, "create", identity, before={}, after=_members(record, fields))
    return WriteAnswer(201, record)


def change(form: Form, context: WriteContext, key: str, body: Fields) -> WriteAnswer:
    """Change the members of a record that a partial body names (contract)."""
    identity = existing(form, context, key)
    writable = {n: one for n, one in form.fields.items() if form.is_movable or n != "account"}
    fields = form.prepare(context, identity, read_fields(context, body, writable, ()))
    before = _members(_record(form, context, identity), fields)
    writes = context.writes_to(form.resource)
    if identity in writes.created:
        writes.created[identity] |= fields
    else:
        writes.changed.setdefault(identity, {}).update(fields)
    form.effects(context, identity, fields)
    record = _record(form, context, identity)
    _log(form, context, "update", identity, before=before, after=_members(record, fields))
    return WriteAnswer(202, record)


def delete(form: Form, context: WriteContext, key: str) -> WriteAnswer:
    """Delete a record permanently."""
    identity = existing(form, context, key)
    form.check(context, identity)
    record = _record(form, context, identity)
    before = {name: record[name] for name in ("id", "name", "email") if name in record}
    _log(form, context, "delete", identity, before=before, after={})
    context.note_deletion(form.resource, identity, record)
    writes = context.writes_to(form.resource)
    if writes.created.pop(identity, None) is None:
        writes.deleted.add(identity)
    return WriteAnswer(204)


def existing(form: Form, context: WriteContext, key: str) -> int:
    """Return the id of a record the caller can see, or refuse (404)."""
    identity = record_id(key)
    if not exists(context, form.resource, identity):
        raise not_found()
    return identity


def _record(form: Form, context: WriteContext, identity: int) -> Fields:
    """Return a record as the service serves it."""
    return one_record(context.view, RESOURCES[form.resource], str(identity))


def _members(record: Fields, fields: Fields) -> Fields:
    """Return the id and the changed members of a record, as served."""
    touched = {name: record[name] for name in fields if name in record}
    return {"id": record["id"], **touched}


def _log(
    form: Form, context: WriteContext, action: str, identity: int, *, before: Fields, after: Fields
) -> None:
    account: Any = identity
    if form.resource != "accounts":
        account = raw_value(context, form.resource, identity, "account")
    subject = subject_of(identity)
    if form.kind == "sso user":
        email = raw_value(context, form.resource, identity, "email")
        subject["user"] = {"id": str(identity), "email": email}
    context.log(
        action,
        form.kind,
        subject,
        before=before,
        after=after,
        account=account,
        is_about_people=form.is_about_people,
    )
