"""What clients wrote, and the consequences: the simulator's only stored state."""

from dataclasses import dataclass, field, replace
from typing import Any

from fleetsim.draws import Draws
from fleetsim.timeuuids import tail_from_bits

Fields = dict[str, Any]
"""A record in raw form: relations as ids, instants as microseconds, keyed by column."""


@dataclass
class ResourceWrites:
    """The writes to one resource, by record id."""

    created: dict[int, Fields] = field(default_factory=dict)
    changed: dict[int, Fields] = field(default_factory=dict)
    deleted: set[int] = field(default_factory=set)

    def snapshot(self) -> "ResourceWrites":
        """Return a copy that later writes do not change."""
        return ResourceWrites(
            {number: dict(record) for number, record in self.created.items()},
            {number: dict(fields) for number, fields in self.changed.items()},
            set(self.deleted),
        )


@dataclass(frozen=True)
class ActivityEntry:
    """One entry of the activity log that a write made; `account` is a row number."""

    at: int
    tail: int
    account: int
    is_about_people: bool
    action: Fields
    actor: Fields
    object: Fields


@dataclass(frozen=True)
class RaisedAlert:
    """One alert caused by a write or a push; `router` is -1 for an account's alert.

    `tail` is the end of its time-based UUID, which a push and the alert list share.
    """

    at: int
    kind: int
    account: int
    tail: int
    router: int = -1
    value: int = 0


@dataclass(frozen=True)
class Deletion:
    """One record a client deleted: its resource, its id, and how it was last served."""

    at: int
    resource: str
    identity: str
    record: Fields


@dataclass
class Ledger:
    """Records created, changed and deleted through the API, with log entries and alerts."""

    draws: Draws
    writes: dict[str, ResourceWrites] = field(default_factory=dict)
    activity: list[ActivityEntry] = field(default_factory=list)
    raised: list[RaisedAlert] = field(default_factory=list)
    retired_rules: list[Fields] = field(default_factory=list)
    deletions: list[Deletion] = field(default_factory=list)
    _serial: int = 0

    def writes_to(self, resource: str) -> ResourceWrites:
        """Return the writes to a resource."""
        return self.writes.setdefault(resource, ResourceWrites())

    def next_serial(self) -> int:
        """Return a number that no earlier write used."""
        self._serial += 1
        return self._serial

    def next_tail(self) -> int:
        """Return the last eight bytes of a new time-based uuid."""
        return int(tail_from_bits(self.draws.bits("written", self.next_serial())))

    def raise_alert(
        self, at: int, kind: int, account: int, *, router: int = -1, value: int = 0
    ) -> RaisedAlert:
        """Put an alert in the log and return it; `account` is a row number."""
        bits = self.draws.bits("raised", at, kind, len(self.raised))
        alert = RaisedAlert(at, kind, account, int(tail_from_bits(bits)), router, value)
        self.raised.append(alert)
        return alert

    def snapshot(self) -> "Ledger":
        """Return a copy that later writes do not change: members are replaced, never edited."""
        return replace(
            self,
            writes={name: writes.snapshot() for name, writes in self.writes.items()},
            activity=list(self.activity),
            raised=list(self.raised),
            retired_rules=[dict(rule) for rule in self.retired_rules],
            deletions=list(self.deletions),
        )
