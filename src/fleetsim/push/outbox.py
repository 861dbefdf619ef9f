"""Which new alerts go to which destinations, the delivery state of each, and a log of pushes.

Delivery states are those of the service contract (Push destination delivery states).
"""

import hashlib
from collections import deque
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

import numpy as np

from fleetsim import stamps
from fleetsim.blocks import Block
from fleetsim.definition import SeriesRead
from fleetsim.faults import BodyShape
from fleetsim.ledger import Fields
from fleetsim.live_shapes import info_of_type_only
from fleetsim.rendering import records
from fleetsim.resources.alerts import ALERTS
from fleetsim.resources.daily import in_scope
from fleetsim.rules import DESTINATIONS, RULES, covered, key_text
from fleetsim.units import DAY, HOUR, MINUTE
from fleetsim.view import View


@dataclass
class SentMessage:
    """One message for one destination, and what became of it.

    `due` is in simulated time. `alerts` are the `created_at_timeuuid` of its alerts, also where
    the body does not show them. `answered` counts the 2xx responses that the sender saw: a message
    without one may still have arrived.
    """

    destination: str
    url: str
    due: int
    is_summary: bool
    alerts: tuple[str, ...]
    body_sha256: str
    attempts: int = 0
    answered: int = 0

    def shown(self) -> dict[str, Any]:
        """Return the message as `GET /sim/truth/pushes` lists it."""
        return {
            "destination_config_id": self.destination,
            "url": self.url,
            "due_at": stamps.to_datetime(self.due).isoformat(),
            "is_summary": self.is_summary,
            "alerts": self.alerts,
            "body_sha256": self.body_sha256,
            "attempts": self.attempts,
            "answered_2xx": self.answered,
        }


@dataclass
class Outgoing:
    """The body of a message that waits for its delivery, and its entry in the list of pushes."""

    body: bytes
    entry: SentMessage


@dataclass
class PushLog:
    """Every message that became due while its destination was enabled, oldest first."""

    entries: list[SentMessage] = field(default_factory=list)

    def add(
        self, destination: str, url: str, due: int, body: bytes, alerts: list[dict[str, Any]]
    ) -> Outgoing:
        """Add a message for a destination, and return it for sending."""
        entry = SentMessage(
            destination=destination,
            url=url,
            due=due,
            is_summary=body.startswith(b"["),
            alerts=tuple(alert["created_at_timeuuid"] for alert in alerts),
            body_sha256=hashlib.sha256(body).hexdigest(),
        )
        self.entries.append(entry)
        return Outgoing(body, entry)

    def lines(self) -> Iterator[dict[str, Any]]:
        """Yield all messages as they are listed."""
        return (entry.shown() for entry in self.entries)

    def counts(self) -> dict[str, int]:
        """Return how many messages there are, and how many of them got a 2xx response."""
        answered = sum(1 for entry in self.entries if entry.answered)
        return {"messages": len(self.entries), "answered_2xx": answered}


BACKOFF: Final = (MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, 23 * HOUR)
"""Waits between attempts, in simulated time: the last is made after 45 hours and 21 minutes."""


class DestinationState(StrEnum):
    """The contract's four states."""

    ACTIVE = "active"
    UNREACHABLE = "unreachable"
    SUSPENDED = "suspended"
    DISABLED = "disabled"


@dataclass
class Delivery:
    """The queue of one destination, and the time of its next retry (None: empty queue)."""

    queue: deque[Outgoing] = field(default_factory=deque)
    attempts: int = 0
    retry_at: int | None = None

    def state(self, destination: Fields) -> DestinationState:
        """Return the state a destination is in."""
        if not destination["enabled"]:
            return DestinationState.DISABLED
        if destination["suspended"]:
            return DestinationState.SUSPENDED
        return DestinationState.ACTIVE if self.retry_at is None else DestinationState.UNREACHABLE

    def fail(self, at: int) -> bool:
        """Record a failed attempt; return whether the server gives up."""
        if self.attempts >= len(BACKOFF):
            self.clear()
            return True
        self.retry_at = at + BACKOFF[self.attempts]
        self.attempts += 1
        return False

    def take(self, most: int) -> list[Outgoing]:
        """Take up to `most` messages from the queue, oldest first."""
        return [self.queue.popleft() for _ in range(min(most, len(self.queue)))]

    def retry_from(self, at: int) -> None:
        """Retry the queue from an instant on, with the full number of attempts."""
        if self.retry_at is not None:
            self.attempts = 0
            self.retry_at = at

    def clear(self) -> None:
        """Empty the queue after delivery works again or was given up."""
        self.queue.clear()
        self.attempts = 0
        self.retry_at = None


_PERIODS: Final = {"hourly": HOUR, "daily": DAY}


@dataclass(frozen=True)
class Message:
    """One alert, as lists serve it, for one rule's destinations, due at an instant."""

    due: int
    rule: int
    destinations: tuple[int, ...]
    alert: Fields
    is_summary: bool


def has_listeners(view: View) -> bool:
    """Return whether any destination is enabled."""
    return any(record["enabled"] for record in view.ledger.writes_to(DESTINATIONS).created.values())


def messages(view: View, since: int, until: int, announced: AbstractSet[int]) -> Iterator[Message]:
    """Yield the messages for alerts created in [since, until), oldest first.

    `announced` holds the uuid tails of alerts that were sent when they were raised.
    """
    assert ALERTS.series is not None
    for block in ALERTS.series(view, SeriesRead(since=since, until=until)):
        part = block.between(since, until)
        part = part.take(np.flatnonzero(in_scope(view, part)))
        if announced:
            new = [tail not in announced for tail in part["tail"].tolist()]
            part = part.take(np.flatnonzero(new))
        if len(part):
            yield from of_block(view, part)


def of_block(view: View, block: Block) -> Iterator[Message]:
    """Yield the messages of a block of alerts, rule by rule."""
    numbers = {
        key_text(record): number
        for number, record in view.ledger.writes_to(DESTINATIONS).created.items()
    }
    for rule_number, rule in view.ledger.writes_to(RULES).created.items():
        sent_to = tuple(numbers[key] for key in rule["http_destinations"] if key in numbers)
        chosen = np.flatnonzero(covered(view, rule, block)) if sent_to else np.zeros(0, dtype=int)
        if len(chosen) == 0:
            continue
        part = block.take(chosen)
        alerts = records(view, ALERTS.shown, part)
        period = _PERIODS.get((rule["schedule"] or "none").lower())
        for at, alert in zip(part["time"].tolist(), alerts, strict=True):
            due = at if period is None else (at // period + 1) * period
            yield Message(due, rule_number, sent_to, alert, period is not None)


def pushed_alert(alert: Fields, shape: BodyShape) -> Fields:
    """Return an alert, given as lists serve it, in the shape of a push body."""
    if shape is BodyShape.LIVE:
        return _live(alert)
    found = dict(alert)
    for name in ("router", "account"):
        url = found[name]
        number = None if url is None else int(url.rstrip("/").rpartition("/")[2])
        is_object = shape is BodyShape.OBJECTS and number is not None
        found[name] = {"id": number, "resource_url": url} if is_object else number
    if shape is not BodyShape.IDS:
        del found["created_at_timeuuid"]
    return _relayed(found) if shape is BodyShape.RELAY else found


def _live(alert: Fields) -> Fields:
    """Return an alert as the live service sends it (observed); {} is where nothing is named."""
    about = {
        name: {} if url is None else {"id": url.rstrip("/").rpartition("/")[2], "resource_url": url}
        for name in ("router", "account")
        for url in (alert[name],)
    }
    info = info_of_type_only("alerts", alert)["info"] or {}
    return {"type": alert["type"], "info": info, **about}


def _relayed(alert: Fields) -> Fields:
    """Return an alert as relays send it (observed); a device or account without a value is {}."""
    device, account = alert.pop("router"), alert.pop("account")
    found = alert | {
        "alert_type": alert.pop("type"),
        "account": {} if account is None else {"id": str(account)},
    }
    for name in ("created_at", "detected_at"):
        found[name] = datetime.fromisoformat(alert[name]).timestamp()
    if device is None:
        return found | {"router": {}}
    return found | {"device_id": device, "router_details": {"id": str(device)}}
