"""Changes that people and devices make to the fleet's records, one UTC day at a time."""

import numpy as np

from fleetsim.blocks import Block
from fleetsim.organisation import ACCOUNTS
from fleetsim.units import DAY, NEVER, SECOND, Ints
from fleetsim.world.occurrences import Occurrences
from fleetsim.world.people import add_actions, failed_logins, lockouts, logins, logouts
from fleetsim.world.world import World

LOGIN, LOGOUT, LOGIN_FAILED, LOCKED, SETTINGS, REGISTERED, GROUP_UPDATED, USER_UPDATED = range(8)
BELONGING, UNREGISTERED = 8, 9
"""Kinds of activity."""

WRITTEN, WRITTEN_PEOPLE = 100, 101
"""Activities made by writes of clients; `value` is the index of the ledger's entry."""

PEOPLE_KINDS = (LOGIN, LOGOUT, LOGIN_FAILED, LOCKED, USER_UPDATED, WRITTEN_PEOPLE)
"""Returned only to a root account's Administrator (service contract, activity_logs)."""

_GROUP_ODDS = 0.05
_USER_ODDS = 0.02


def activities_of(world: World, routers: Ints, day: int) -> Block:
    """Return the activities of a UTC day about some routers, and those of all people.

    In the block, `value` is the person, `slot` the changed setting, `account` a row number.
    """
    found = Occurrences(world.draws, day, world.started_at, world.fleet.registrations)
    for kind, actions in (
        (LOGIN, logins(world, day)),
        (LOGOUT, logouts(world, day)),
        (LOGIN_FAILED, failed_logins(world, day)),
        (LOCKED, lockouts(world, day)),
    ):
        add_actions(found, kind, actions)
    _settings(found, world, routers, day)
    _connections(found, world, routers, day)
    _belonging(found, world, routers, day)
    _registrations(found, world, routers)
    _groups(found, world, day)
    _users(found, world, day)
    return found.block("activity")


def _settings(found: Occurrences, world: World, routers: Ints, day: int) -> None:
    """Add changes of router settings."""
    for service_day in (day - 1, day):
        days = np.full(len(routers), service_day)
        change = world.changes.plan(routers, days)
        found.add(
            change.at < NEVER,
            change.at,
            routers,
            SETTINGS,
            account=world.fleet.belonging.account_at(routers, change.at),
            slot=change.setting,
            value=change.person,
        )


def _connections(found: Occurrences, world: World, routers: Ints, day: int) -> None:
    """Add the registration of routers that are online again after a spell offline."""
    for service_day in (day - 1, day):
        spell = world.planner.plan(routers, np.full(len(routers), service_day)).offline
        account = world.fleet.belonging.account_at(routers, spell.end)
        found.add(spell.happens, spell.end + SECOND, routers, REGISTERED, account=account)


def _belonging(found: Occurrences, world: World, routers: Ints, day: int) -> None:
    """Add changes of a router's account, group or name; `slot` is the change's number."""
    belonging = world.fleet.belonging
    at = belonging.changed_at(routers, np.full(len(routers), (day + 1) * DAY - 1))
    person = world.draws.below(len(world.people), "belonging-person", routers, at)
    account = belonging.account_at(routers, at)
    keep = at >= max(day * DAY - DAY, world.started_at)
    found.add(keep, at, routers, BELONGING, account=account, value=person, slot=at // SECOND)


def _registrations(found: Occurrences, world: World, routers: Ints) -> None:
    """Add the unregistration of routers by people, and the routers registered after them."""
    registrations = world.fleet.registrations
    leaves, comes = registrations.until[routers], registrations.since[routers]
    person = world.draws.below(len(world.people), "unregistering-person", routers)
    for kind, keep, at in (
        # Just before: nothing is recorded about a router that is not registered.
        (UNREGISTERED, leaves < NEVER, leaves - 3 * SECOND),
        (REGISTERED, comes > 0, comes),
    ):
        account = world.fleet.belonging.account_at(routers, at)
        found.add(keep, at, routers, kind, account=account, value=person)


def _groups(found: Occurrences, world: World, day: int) -> None:
    """Add changes of group settings."""
    group = np.arange(world.fleet.groups)
    at = day * DAY + world.draws.between(0, DAY, "group-change-at", group, day).astype(np.int64)
    keep = world.draws.chance(_GROUP_ODDS, "group-change", group, day) & (at >= world.started_at)
    person = world.draws.below(len(world.people), "group-change-person", group, day)
    account = group // (world.fleet.groups // len(ACCOUNTS))
    nowhere = np.full(len(group), -1)
    found.add(keep, at, nowhere, GROUP_UPDATED, account=account, slot=group, value=person)


def _users(found: Occurrences, world: World, day: int) -> None:
    """Add changes of users' own records."""
    person = np.arange(len(world.people))
    at = day * DAY + world.draws.between(0, DAY, "user-change-at", person, day).astype(np.int64)
    keep = world.draws.chance(_USER_ODDS, "user-change", person, day) & (at >= world.started_at)
    account = np.array([someone.account for someone in world.people])
    nowhere = np.full(len(person), -1)
    found.add(keep, at, nowhere, USER_UPDATED, account=account, value=person)
