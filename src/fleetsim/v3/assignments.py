"""Assignments: which subscription a device has, and from when until when.

Each device but a few has one; some have an add-on too. The add-on of one device in eight moves to
the next device and back every 36 hours. Every 60 hours, one device in eight is regraded: it gets a
new assignment of another type in place of its old one. The plain list of subscriptions does not
have assignments: they are found by `filter[id]` only (observed).
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from fleetsim import stamps
from fleetsim.units import DAY, HOUR
from fleetsim.v3.documents import TENANT, Document, item
from fleetsim.view import View

SUBSCRIPTION_TYPES: Final = ("site-essentials", "vehicle-advanced", "wireless-wan", "security")
_ADD_ON: Final = "security"
_UNLICENSED: Final = (10, 11)
_ONE_IN: Final = 8
_MOVES_EVERY, _REGRADED_EVERY = 36 * HOUR, 60 * HOUR
_TERM: Final = 3 * 365 * DAY


def assignments_of(view: View, rows: Sequence[int]) -> list[list[Document]]:
    """Return the assignments that each of these routers has now."""
    return [[*_base(view, row), *_add_on(view, row)] for row in rows]


def assignments(view: View) -> list[Document]:
    """Return all assignments that a device has now."""
    rows: list[int] = np.flatnonzero(view.scope).tolist()
    return [one for found in assignments_of(view, rows) for one in found]


def _base(view: View, row: int) -> list[Document]:
    remainder, of = _UNLICENSED
    if row % of == remainder:
        return []
    installed = int(view.world.fleet.installed_at[row])
    grade, start = 0, installed
    if row % _ONE_IN == _ONE_IN // 2:
        grade = (view.now - installed) // _REGRADED_EVERY
        start += grade * _REGRADED_EVERY
    kind = SUBSCRIPTION_TYPES[(row + grade) % (len(SUBSCRIPTION_TYPES) - 1)]
    return [_assignment(view, row, grade, kind, start)]


def _add_on(view: View, row: int) -> list[Document]:
    """Return the add-on that a router has now: its own, or that of the router before it."""
    for owner in (row, row - 1):
        if owner < 0 or owner % _ONE_IN or not view.scope[owner]:
            continue
        installed = int(view.world.fleet.installed_at[owner])
        moved = (view.now - installed) // _MOVES_EVERY % 2
        next_sees = owner + 1 < len(view.scope) and bool(view.scope[owner + 1])
        if (owner + 1 if moved and next_sees else owner) == row:
            return [_assignment(view, owner, -1, _ADD_ON, installed)]
    return []


def _assignment(view: View, row: int, grade: int, kind: str, start: int) -> Document:
    end = int(view.world.fleet.installed_at[row]) + _TERM
    hardware = int(view.world.fleet.hardware_id[row])
    word = int(view.world.draws.bits("assignment", np.array([hardware * 1_000 + grade + 1]))[0])
    attributes: dict[str, Any] = {
        "name": f"{kind} {hardware}",
        "start_time": stamps.to_datetime(start // DAY * DAY).isoformat(),
        "end_time": stamps.to_datetime(end // DAY * DAY).isoformat(),
        "quantity": 1,
    }
    related = {"subscription_type": ("subscription_types", kind), "tenants": TENANT}
    return item(view.origin, "subscriptions", f"as-{word:016x}", attributes, related)
