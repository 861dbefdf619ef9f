"""Logins, failed logins, lockouts and logouts of users, drawn per person and day."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fleetsim.units import DAY, HOUR, MINUTE, SECOND, Flags, Ints
from fleetsim.world.occurrences import Occurrences

if TYPE_CHECKING:  # the world is built from this module's neighbours
    from fleetsim.world.world import World

SESSIONS = 3
_SESSION_ODDS = 0.55
_FAILED_ODDS = 0.12
_LOCKOUT_ODDS = 0.01
FAILURES_TO_LOCK = 6
"""Service contract, Limits: 30 minutes after six failed logins."""


@dataclass(frozen=True)
class PersonalActions:
    """Instants of people's actions; `account` is a row number."""

    keep: Flags
    at: Ints
    person: Ints
    account: Ints


def _actions_of(world: "World", at: Ints, keep: Flags, person: Ints) -> PersonalActions:
    """Return the kept actions as flat arrays, without those before the world begins."""
    accounts = np.array([p.account for p in world.people])
    person = np.broadcast_to(person, at.shape).ravel()
    at, keep = at.ravel(), keep.ravel()
    return PersonalActions(keep & (at >= world.started_at), at, person, accounts[person])


def add_actions(found: Occurrences, kind: int, actions: PersonalActions) -> None:
    """Add actions of people, which are not about a router."""
    nowhere = np.full(actions.at.shape, -1)
    found.add(
        actions.keep, actions.at, nowhere, kind, account=actions.account, value=actions.person
    )


def _logins(world: "World", day: int) -> tuple[Ints, Flags, Ints]:
    """Return when each person's sessions of a UTC day begin, and whether they do."""
    draws = world.draws
    person = np.arange(len(world.people))[:, None]
    session = np.arange(SESSIONS)
    at = day * DAY + 13 * HOUR + session * 3 * HOUR
    at = at + draws.between(0, 2.5 * HOUR, "login-at", person, day, session).astype(np.int64)
    return at, draws.chance(_SESSION_ODDS, "login", person, day, session), person


def logins(world: "World", day: int) -> PersonalActions:
    """Return the logins of a UTC day."""
    at, keep, person = _logins(world, day)
    return _actions_of(world, at, keep, person)


def logouts(world: "World", day: int) -> PersonalActions:
    """Return the logouts of a UTC day, 5 to 25 minutes after the login."""
    at, keep, person = _logins(world, day)
    length = world.draws.between(
        5 * MINUTE, 25 * MINUTE, "session", person, day, np.arange(SESSIONS)
    )
    began_in_time = at >= world.started_at
    return _actions_of(world, at + length.astype(np.int64), keep & began_in_time, person)


def failed_logins(world: "World", day: int) -> PersonalActions:
    """Return failed logins: a slip before a session, or six in a row before a lockout."""
    at, _, person = _logins(world, day)
    slip = world.draws.chance(_FAILED_ODDS, "login-failed", person, day, np.arange(SESSIONS))
    slips = _actions_of(world, at - 40 * SECOND, slip, person)
    locked = lockouts(world, day)
    back = np.arange(FAILURES_TO_LOCK, 0, -1) * 8 * SECOND
    tries = _actions_of(
        world,
        locked.at[:, None] - back,
        np.repeat(locked.keep[:, None], FAILURES_TO_LOCK, axis=1),
        locked.person[:, None],
    )
    return PersonalActions(
        *(
            np.concatenate(pair)
            for pair in zip(vars(slips).values(), vars(tries).values(), strict=True)
        )
    )


def lockouts(world: "World", day: int) -> PersonalActions:
    """Return the instants at which an account is locked after six failures."""
    person = np.arange(len(world.people))
    offset = world.draws.between(HOUR, 11 * HOUR, "lockout-at", person, day)
    at = day * DAY + offset.astype(np.int64)
    return _actions_of(world, at, world.draws.chance(_LOCKOUT_ODDS, "lockout", person, day), person)
