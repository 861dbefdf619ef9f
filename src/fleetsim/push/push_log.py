"""What was pushed, for comparison with what arrived."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from fleetsim import stamps


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
