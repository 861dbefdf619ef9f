"""How many calls may be under way at once, and which one goes next.

The gate starts at its full width. A refusal for the call limit, or answers that take clearly
longer than that path's usual ones, halve it; every good answer widens it by a little, one call
for each round of them. So the service sets the pace, whatever else it has to do.
"""

import asyncio
import heapq
import itertools
import math
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

NOT_URGENT = math.inf
SLOW_FACTOR = 2.0
SLOW_SECONDS = 0.5
"""An answer is slow at twice its path's usual time and half a second more."""

_WEIGHT = 0.2
_FORGETTING = 1.01


@dataclass
class _Pace:
    """Seconds an answer of one path takes: lately, and at its best."""

    recent: float
    best: float

    def note(self, seconds: float) -> None:
        self.recent += _WEIGHT * (seconds - self.recent)
        self.best = min(self.best * _FORGETTING, self.recent)

    @property
    def is_slow(self) -> bool:
        return self.recent > SLOW_FACTOR * self.best + SLOW_SECONDS


class Gate:
    """Admits up to `most` calls at once, the most urgent first and otherwise in turn."""

    def __init__(self, most: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._width = float(most)
        self._clock = clock
        self._under_way = 0
        self._waiting: list[tuple[float, int, asyncio.Future[None]]] = []
        self._turn = itertools.count()
        self._paces: dict[str, _Pace] = {}
        self._narrowed_at = -math.inf

    @property
    def width(self) -> int:
        """How many calls may be under way now."""
        return max(1, int(self._width))

    @asynccontextmanager
    async def admit(self, urgency: float = NOT_URGENT) -> AsyncIterator[None]:
        """Hold a place among the calls under way; the least `urgency` is admitted first."""
        await self._wait(urgency)
        try:
            yield
        finally:
            self._under_way -= 1
            self._call_next()

    def answered(self, path: str, began: float) -> None:
        """Learn from a good answer to a call that began at that instant of the clock."""
        seconds = self._clock() - began
        pace = self._paces.setdefault(path, _Pace(seconds, seconds))
        pace.note(seconds)
        if pace.is_slow and self._narrow(began):
            pace.recent = pace.best
        else:
            self._width = min(self._width + 1 / self._width, self._most)

    def refused(self, began: float) -> None:
        """Learn from a call that the service refused because there were too many."""
        self._narrow(began)

    def _narrow(self, began: float) -> bool:
        """Halve the width, once for all calls that were under way at that time."""
        if began < self._narrowed_at:
            return False
        self._narrowed_at = self._clock()
        self._width = max(1.0, self._width / 2)
        return True

    async def _wait(self, urgency: float) -> None:
        if self._under_way < self.width and not self._waiting:
            self._under_way += 1
            return
        admitted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (urgency, next(self._turn), admitted))
        try:
            await admitted
        except asyncio.CancelledError:
            if admitted.done() and not admitted.cancelled():
                # Admitted and cancelled at once: the place goes to the next.
                self._under_way -= 1
                self._call_next()
            raise

    def _call_next(self) -> None:
        while self._waiting and self._under_way < self.width:
            _, _, admitted = heapq.heappop(self._waiting)
            if not admitted.done():
                self._under_way += 1
                admitted.set_result(None)
