"""The delivery state of one destination (service contract, Push destination delivery states)."""

from collections import deque
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from fleetsim.ledger import Fields
from fleetsim.push.push_log import Outgoing
from fleetsim.units import HOUR, MINUTE

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
