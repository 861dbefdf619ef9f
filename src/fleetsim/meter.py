"""Counts calls, and refuses those above the limit per minute."""

from collections import Counter, deque
from dataclasses import dataclass, field

from fleetsim.refusals import too_many_calls

_WINDOW_S = 60.0


@dataclass
class Meter:
    """Calls by resource; `limit_per_minute` is in wall time, and None means no limit."""

    calls: Counter[str] = field(default_factory=Counter)
    counted_calls: int = 0
    limit_per_minute: int | None = None
    _admitted: deque[float] = field(default_factory=deque)
    _refused: int = 0

    def count(self, resource: str, *, counted: bool) -> None:
        """Count one call."""
        self.calls[resource] += 1
        self.counted_calls += counted

    def admit(self, at: float) -> None:
        """Admit a call at a wall time in seconds.

        Raises: Refusal (429) if the minute's calls are used up. Every second refusal has
        Retry-After, because the live service does not always send it.
        """
        if self.limit_per_minute is None:
            return
        while self._admitted and self._admitted[0] <= at - _WINDOW_S:
            self._admitted.popleft()
        if len(self._admitted) < self.limit_per_minute:
            self._admitted.append(at)
            return
        self._refused += 1
        wait = int(self._admitted[0] + _WINDOW_S - at) + 1 if self._admitted else int(_WINDOW_S)
        raise too_many_calls(retry_after=wait if self._refused % 2 else None)
