"""Alert rules: an alert exists if a rule covered it when it was created (service contract)."""

from collections.abc import Iterator
from typing import Final

import numpy as np

from fleetsim import timeuuids
from fleetsim.alert_types import ALERT_TYPES
from fleetsim.blocks import Block
from fleetsim.identifiers import group_ids
from fleetsim.ledger import Fields, Ledger
from fleetsim.organisation import ACCOUNTS, ROOT, ROW_OF_ACCOUNT, subtree
from fleetsim.units import NEVER, Flags
from fleetsim.view import View

RULES: Final = "alert_rules"
DESTINATIONS: Final = "alert_push_destinations"


def key_text(record: Fields) -> str:
    """Return the time-based uuid that identifies a rule or destination."""
    at, tail = np.array([record["created_at"]]), np.array([record["tail"]], dtype=np.uint64)
    return timeuuids.to_text(at, tail)[0]


def versions(ledger: Ledger) -> Iterator[Fields]:
    """Yield every version of every rule: those in force, and those that were changed or deleted."""
    yield from ledger.retired_rules
    yield from ledger.writes_to(RULES).created.values()


def retire(ledger: Ledger, rule: Fields, now: int) -> None:
    """Record that the current version of a rule ends now."""
    ledger.retired_rules.append({**rule, "valid_to": now})


def wanted(view: View, block: Block) -> Flags:
    """Return which alerts were covered by a rule when they were created."""
    known = list(versions(view.ledger))
    if any(_covers_all(rule, view.world.started_at) for rule in known):
        return np.ones(len(block), dtype=bool)
    found = np.zeros(len(block), dtype=bool)
    for rule in known:
        found |= covered(view, rule, block)
    return found


def _covers_all(rule: Fields, started_at: int) -> bool:
    """Return whether a rule has always covered every type in every account."""
    always = rule["valid_from"] <= started_at and rule["valid_to"] == NEVER
    root = ACCOUNTS[ROOT].id in rule["associated_accounts"]
    return always and root and set(ALERT_TYPES) <= set(rule["filter_criteria"]["alert_type__in"])


def covered(view: View, rule: Fields, block: Block) -> Flags:
    """Return which alerts one version of a rule covers: in its time, types, accounts, groups."""
    names = rule["filter_criteria"]["alert_type__in"]
    types = np.array([name in names for name in ALERT_TYPES])
    in_time = (block["time"] >= rule["valid_from"]) & (block["time"] < rule["valid_to"])
    return np.asarray(in_time & types[block["kind"]] & _associated(view, rule, block))


def _associated(view: View, rule: Fields, block: Block) -> Flags:
    """Return which alerts belong to a rule's accounts (and those nested) or groups."""
    belonging = view.world.fleet.belonging
    about_router = block["router"] >= 0
    account = belonging.account_at(block["router"], block["time"])
    account = np.where(about_router, account, block["account"])
    rows = {
        nested
        for number in rule["associated_accounts"]
        if number in ROW_OF_ACCOUNT
        for nested in subtree(ROW_OF_ACCOUNT[number])
    }
    found = np.isin(account, list(rows))
    if rule["associated_groups"]:
        group = np.where(about_router, belonging.group_at(block["router"], block["time"]), -1)
        found |= np.isin(group_ids(group), rule["associated_groups"])
    return np.asarray(found)
