"""Creating, changing and deleting the records of snapshot resources."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from fleetsim.answers import one_record
from fleetsim.ledger import Fields
from fleetsim.refusals import not_found
from fleetsim.resources import RESOURCES
from fleetsim.writing.desk import Desk, Written, record_id, subject_of
from fleetsim.writing.readers import Reader, exists, raw_value, read_fields

_FIRST_CREATED_ID: Final = 900_000_000
"""Above every id of the world, so that created records come last in id order."""

Check = Callable[[Desk, int], None]
Prepare = Callable[[Desk, int, Fields], Fields]


def nothing_to_check(_desk: Desk, _identity: int) -> None:
    """Refuse nothing."""


def as_sent(_desk: Desk, _identity: int, fields: Fields) -> Fields:
    """Return the fields to store: those that were sent."""
    return fields


@dataclass(frozen=True, kw_only=True)
class Form:
    """How one resource is written.

    `fields` are the readers of its writable members and `required` those a POST must have.
    `kind` is its object type in the activity log. `defaults` fill a created record. `check`
    may refuse a deletion; `prepare` turns the fields read into those stored; `effects` follow a
    change.
    """

    resource: str
    kind: str
    fields: dict[str, Reader]
    required: tuple[str, ...] = ()
    defaults: Fields = field(default_factory=dict)
    is_about_people: bool = False
    check: Check = nothing_to_check
    prepare: Prepare = as_sent
    effects: Callable[[Desk, int, Fields], None] = lambda _desk, _identity, _changes: None


def create(form: Form, desk: Desk, body: Fields) -> Written:
    """Create a record in the account named, or else the caller's own (contract, Endpoints)."""
    fields = {"account": desk.own_account, **form.defaults}
    fields |= read_fields(desk, body, form.fields, form.required)
    identity = _FIRST_CREATED_ID + desk.view.ledger.next_serial()
    desk.writes_to(form.resource).created[identity] = {**fields, "id": identity}
    form.effects(desk, identity, fields)
    record = _record(form, desk, identity)
    _log(form, desk, "create", identity, before={}, after=_members(record, fields))
    return Written(201, record)


def change(form: Form, desk: Desk, key: str, body: Fields) -> Written:
    """Change the named members of a record: a partial body, as the contract has it."""
    identity = existing(form, desk, key)
    writable = {name: reader for name, reader in form.fields.items() if name != "account"}
    fields = form.prepare(desk, identity, read_fields(desk, body, writable, ()))
    before = _members(_record(form, desk, identity), fields)
    writes = desk.writes_to(form.resource)
    if identity in writes.created:
        writes.created[identity] |= fields
    else:
        writes.changed.setdefault(identity, {}).update(fields)
    form.effects(desk, identity, fields)
    record = _record(form, desk, identity)
    _log(form, desk, "update", identity, before=before, after=_members(record, fields))
    return Written(202, record)


def delete(form: Form, desk: Desk, key: str) -> Written:
    """Delete a record for good."""
    identity = existing(form, desk, key)
    form.check(desk, identity)
    record = _record(form, desk, identity)
    before = {name: record[name] for name in ("id", "name", "email") if name in record}
    _log(form, desk, "delete", identity, before=before, after={})
    desk.note_deletion(form.resource, identity, record)
    writes = desk.writes_to(form.resource)
    if writes.created.pop(identity, None) is None:
        writes.deleted.add(identity)
    return Written(204)


def existing(form: Form, desk: Desk, key: str) -> int:
    """Return the id of a record the caller can see, or refuse (404)."""
    identity = record_id(key)
    if not exists(desk, form.resource, identity):
        raise not_found()
    return identity


def _record(form: Form, desk: Desk, identity: int) -> Fields:
    """Return a record as the service serves it."""
    return one_record(desk.view, RESOURCES[form.resource], str(identity))


def _members(record: Fields, fields: Fields) -> Fields:
    """Return the id and the members a write touched, as served."""
    touched = {name: record[name] for name in fields if name in record}
    return {"id": record["id"], **touched}


def _log(
    form: Form, desk: Desk, action: str, identity: int, *, before: Fields, after: Fields
) -> None:
    account: Any = identity
    if form.resource != "accounts":
        account = raw_value(desk, form.resource, identity, "account")
    subject = subject_of(identity)
    if form.kind == "sso user":
        email = raw_value(desk, form.resource, identity, "email")
        subject["user"] = {"id": str(identity), "email": email}
    desk.log(
        action,
        form.kind,
        subject,
        before=before,
        after=after,
        account=account,
        is_about_people=form.is_about_people,
    )
