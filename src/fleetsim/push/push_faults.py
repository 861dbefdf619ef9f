"""How pushes go wrong and what they look like, as set by `PUT /sim/faults`."""

import random
from collections.abc import Mapping, MutableSequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from fleetsim.refusals import validation

PREFIX: Final = "push_"
"""Names of these faults begin so."""

MOST_AT_ONCE: Final = 64
_RATES: Final = ("push_duplicate", "push_reset", "push_timeout", "push_truncate")


class BodyShape(StrEnum):
    """The shapes of a pushed alert. The service contract shows none in full."""

    IDS = "ids"  # `router` and `account` are integers, with `created_at_timeuuid`
    OBJECTS = "objects"  # both are objects, without `created_at_timeuuid`
    RELAY = "relay"  # as relays send it: other names, and times in seconds since 1970
    LIVE = "live"  # type, info and two objects: without an id, a text or a time


@dataclass
class PushFaults:
    """The active faults of pushes, drawn from a random generator of their own.

    `push_concurrency` is the number of simultaneous deliveries per destination; with one, pushes
    arrive in the order of simulated time.
    """

    seed: int
    push_duplicate: float = 0.0
    push_reset: float = 0.0
    push_timeout: float = 0.0
    push_truncate: float = 0.0
    push_reorder: bool = False
    push_concurrency: int = 1
    push_body: BodyShape = BodyShape.IDS
    _random: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)  # noqa: S311 - faults, not secrets

    def check(self, wanted: Mapping[str, Any]) -> None:
        """Refuse (validation) an unknown name or a value out of range."""
        for name, value in wanted.items():
            if name not in self.settings():
                raise validation(name, "no such fault")
            if not _is_valid(name, value):
                raise validation(name, f"invalid value {value!r}", status=400)

    def change(self, wanted: Mapping[str, Any]) -> None:
        """Set the named faults, which `check` has accepted."""
        for name, value in wanted.items():
            setattr(self, name, type(getattr(self, name))(value))

    def settings(self) -> dict[str, float | int | str]:
        """Return the active faults."""
        names = (*_RATES, "push_reorder", "push_concurrency", "push_body")
        return {name: getattr(self, name) for name in names}

    def happens(self, name: str) -> bool:
        """Draw whether one fault happens now."""
        rate: float = getattr(self, name)
        return rate > 0 and self._random.random() < rate

    def shuffle(self, messages: MutableSequence[Any]) -> None:
        """Put messages into a random order."""
        self._random.shuffle(messages)


def _is_valid(name: str, value: object) -> bool:
    match name:
        case "push_reorder":
            return isinstance(value, bool)
        case "push_concurrency":
            return type(value) is int and 1 <= value <= MOST_AT_ONCE
        case "push_body":
            return value in [*BodyShape]
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1
