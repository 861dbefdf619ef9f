"""What clients have written, and what followed from it: the only state that is stored."""

from dataclasses import dataclass, field
from typing import Any

from fleetlake.simulator.draws import Draws
from fleetlake.simulator.timeuuids import tail_from_bits

Fields = dict[str, Any]
"""A record in raw form: relations as ids, instants as microseconds, keyed by column."""


@dataclass
class Table:
    """The writes to one resource, by record id."""

    created: dict[int, Fields] = field(default_factory=dict)
    changed: dict[int, Fields] = field(default_factory=dict)
    deleted: set[int] = field(default_factory=set)


@dataclass(frozen=True)
class Deed:
    """One entry of the activity log that a write made; `account` is a row number."""

    at: int
    tail: int
    account: int
    is_about_people: bool
    action: Fields
    actor: Fields
    object: Fields


@dataclass(frozen=True)
class Raised:
    """One alert that followed from a write or a push; `router` is -1 for an account's."""

    at: int
    kind: int
    account: int
    router: int = -1
    value: int = 0


@dataclass
class Ledger:
    """Records created, changed and deleted through the API, and their traces."""

    draws: Draws
    tables: dict[str, Table] = field(default_factory=dict)
    deeds: list[Deed] = field(default_factory=list)
    raised: list[Raised] = field(default_factory=list)
    retired_rules: list[Fields] = field(default_factory=list)
    _serial: int = 0

    def table(self, resource: str) -> Table:
        """Return the writes to a resource."""
        return self.tables.setdefault(resource, Table())

    def next_serial(self) -> int:
        """Return a number no earlier write had."""
        self._serial += 1
        return self._serial

    def next_tail(self) -> int:
        """Return the last eight bytes of a new time-based uuid."""
        return int(tail_from_bits(self.draws.bits("written", self.next_serial())))
