"""How pushes go wrong and what they look like, as set by `PUT /sim/faults`."""

from collections.abc import MutableSequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from fleetsim.faults import DrawnFaults

PREFIX: Final = "push_"
"""Names of these faults begin so."""

MOST_AT_ONCE: Final = 64


class BodyShape(StrEnum):
    """The shapes of a pushed alert. The service contract shows none in full."""

    IDS = "ids"  # `router` and `account` are integers, with `created_at_timeuuid`
    OBJECTS = "objects"  # both are objects, without `created_at_timeuuid`
    RELAY = "relay"  # as relays send it: other names, and times in seconds since 1970
    LIVE = "live"  # type, info and two objects: without an id, a text or a time


@dataclass
class PushFaults(DrawnFaults):
    """The active faults of pushes.

    `push_concurrency` is the number of simultaneous deliveries per destination; with one, pushes
    arrive in the order of simulated time.
    """

    push_duplicate: float = 0.0
    push_reset: float = 0.0
    push_timeout: float = 0.0
    push_truncate: float = 0.0
    push_reorder: bool = False
    push_concurrency: int = 1
    push_body: BodyShape = BodyShape.IDS

    def is_valid(self, name: str, value: object) -> bool:
        """Return whether a fault may have a value."""
        match name:
            case "push_reorder":
                return isinstance(value, bool)
            case "push_concurrency":
                return type(value) is int and 1 <= value <= MOST_AT_ONCE
            case "push_body":
                return value in [*BodyShape]
        return super().is_valid(name, value)

    def shuffle(self, messages: MutableSequence[Any]) -> None:
        """Put messages into a random order."""
        self._random.shuffle(messages)
