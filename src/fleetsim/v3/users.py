"""v3 users: the same people as v2's with more attributes; collaborators have fewer."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from fleetsim import stamps
from fleetsim.ledger import Fields
from fleetsim.organisation import ACCOUNTS, CONTRACTORS
from fleetsim.refusals import LONGEST_TEXT
from fleetsim.resources import RESOURCES
from fleetsim.units import DAY
from fleetsim.v3.documents import Document, V3Refusal, item
from fleetsim.view import View
from fleetsim.world.people import logins
from fleetsim.writing.forms import USER_FORM
from fleetsim.writing.readers import WriteContext, flag, optional_text, read_fields, wrong
from fleetsim.writing.snapshot_records import change, create, delete


def _minutes(_context: WriteContext, name: str, value: Any) -> int:
    """Read a number of minutes."""
    if type(value) is not int or value < 0:
        raise wrong(name, value)
    return value


_COLLABORATOR_TIMEOUT_MINUTES = 240
_LOOKBACK_DAYS = 7
_V2_FIELDS: Final = ("email", "first_name", "last_name")
_V3_READERS: Final = {
    "is_active": flag,
    "pending_email": optional_text,
    "last_login": optional_text,  # set by the service; values sent are ignored
    "timeout": _minutes,
}


def _column(view: View, name: str) -> list[Any]:
    users = RESOURCES["users"]
    found: list[Any] = np.asarray(users.by_name[name].read(view, users.snapshot(view))).tolist()
    return found


def user_ids(view: View) -> Sequence[int]:
    """Return the ids of all users in the view, including those created through v2."""
    return sorted(_column(view, "id"))


def user_items(view: View, ids: Sequence[int]) -> list[Document]:
    """Return users; a collaborator's attributes are the contract's reduced set."""
    names = ("id", "account", *_V2_FIELDS)
    rows = zip(*(_column(view, name) for name in names), strict=True)
    by_id = {row[0]: dict(zip(names, row, strict=True)) for row in rows}
    seen = _last_logins(view)
    return [_item(view, by_id[identity], seen.get(identity)) for identity in ids]


def _item(view: View, person: Fields, last_login: int | None) -> Document:
    attributes = {name: person[name] for name in _V2_FIELDS}
    written = view.ledger.writes_to("v3_users").changed.get(person["id"], {})
    if person["account"] == ACCOUNTS[CONTRACTORS].id:
        timeout = written.get("timeout", _COLLABORATOR_TIMEOUT_MINUTES)
        return item(view.origin, "users", str(person["id"]), {**attributes, "timeout": timeout}, {})
    more = {
        "is_active": written.get("is_active", True),
        "last_login": None if last_login is None else stamps.to_datetime(last_login).isoformat(),
        "pending_email": written.get("pending_email"),
    }
    return item(view.origin, "users", str(person["id"]), {**attributes, **more}, {})


def _last_logins(view: View) -> dict[int, int]:
    """Return the last login of each user in the last week, by id."""
    found: dict[int, int] = {}
    today = view.now // DAY
    for day in range(today - _LOOKBACK_DAYS, today + 1):
        actions = logins(view.world, day)
        done = actions.keep & (actions.at <= view.now)
        for person, at in zip(
            actions.person[done].tolist(), actions.at[done].tolist(), strict=True
        ):
            identity = view.world.people[person].id
            found[identity] = max(found.get(identity, 0), at)
    return found


def write_user(
    context: WriteContext, method: str, key: str | None, attributes: Fields
) -> Document | None:
    """Add, modify or delete a user and return the item as served; no tenant is required."""
    unknown = set(attributes) - {*_V2_FIELDS, *_V3_READERS}
    if unknown:
        raise V3Refusal(400, "invalid attribute", ", ".join(sorted(unknown))[:LONGEST_TEXT])
    fields = {name: value for name, value in attributes.items() if name in _V2_FIELDS}
    own = {name: value for name, value in attributes.items() if name in _V3_READERS}
    extra = read_fields(context, own, _V3_READERS, ())
    if method == "POST":
        written = create(USER_FORM, context, fields)
        assert written.body is not None
        key = str(written.body["id"])
    elif method == "DELETE":
        delete(USER_FORM, context, key or "")
        return None
    else:
        change(USER_FORM, context, key or "", fields)
    assert key is not None
    context.writes_to("v3_users").changed.setdefault(int(key), {}).update(extra)
    return user_items(context.view, [int(key)])[0]
