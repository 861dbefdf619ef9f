"""How many calls may run concurrently, and which call goes next.

The gate starts fully open. A refusal for the call limit, or a response much slower than usual for
its path, halves it. Every good response widens it again, by one call per round of responses. So
the gate adapts to the load that the service can handle.
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
"""A response is slow if it takes twice its path's usual time plus half a second."""

_WEIGHT = 0.2
_FORGETTING = 1.01


@dataclass
class _Pace:
    """Seconds that responses of one path take: recently, and at best."""

    recent: float
    best: float

    def note(self, seconds: float) -> None:
        self.recent += _WEIGHT * (seconds - self.recent)
        self.best = min(self.best * _FORGETTING, self.recent)

    @property
    def is_slow(self) -> bool:
        return self.recent > SLOW_FACTOR * self.best + SLOW_SECONDS


class Gate:
    """Admits up to `most` calls at once: the most urgent first, otherwise in order of arrival."""

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
        """How many calls may run concurrently at the moment."""
        return int(self._width)

    @asynccontextmanager
    async def admit(self, urgency: float = NOT_URGENT) -> AsyncIterator[None]:
        """Hold one of the slots for calls; the lowest `urgency` is admitted first."""
        await self._wait(urgency)
        try:
            yield
        finally:
            self._under_way -= 1
            self._call_next()

    def answered(self, path: str, began: float) -> None:
        """Adapt to a good response; the call began at `began` on the gate's clock."""
        seconds = self._clock() - began
        pace = self._paces.setdefault(path, _Pace(seconds, seconds))
        pace.note(seconds)
        if pace.is_slow and self._narrow(began):
            pace.recent = pace.best
        else:
            self._width = min(self._width + 1 / self._width, self._most)

    def refused(self, began: float) -> None:
        """Adapt to the service's refusal of a call because there were too many."""
        self._narrow(began)

    def _narrow(self, began: float) -> bool:
        """Halve the width, but only once for all calls that ran at the same time."""
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
                # Admitted and cancelled at the same time: the slot goes to the next call.
                self._under_way -= 1
                self._call_next()
            raise

    def _call_next(self) -> None:
        while self._waiting and self._under_way < self.width:
            _, _, admitted = heapq.heappop(self._waiting)
            if not admitted.done():
                self._under_way += 1
                admitted.set_result(None)
