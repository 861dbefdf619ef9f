"""Reading the spans of a stream with several concurrent walks."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from fleetlake.decoding.arrow import Page, event_at
from fleetlake.endpoints.model import Endpoint
from fleetlake.planning.intervals import Interval
from fleetlake.reading.pages import read_pages
from fleetlake.reading.windows import Frontier, Span, Window, after_page
from fleetlake.service.client import Client


@dataclass(frozen=True)
class Reading:
    """A page, the ids it was requested for, and the range it proves complete (or None)."""

    page: Page
    partitions: tuple[int, ...]
    proven: Interval | None


async def read_spans(
    client: Client, endpoint: Endpoint, spans: Sequence[Span], *, walks: int
) -> AsyncIterator[Reading]:
    """Yield the pages of all spans as they arrive, with at most `walks` concurrent walks.

    A slow consumer slows the walks: at most one page per walk waits. Raises: ServiceError for a
    page that fails permanently, after yielding the pages that arrived before.
    """
    pool = _Walks(client, endpoint, spans, walks)
    running = asyncio.create_task(pool.run())
    try:
        while (reading := await pool.arrived.get()) is not None:
            yield reading
        await running
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await running


class _Walks:
    """The running walks, and the parts of each span that are not assigned yet.

    `arrived` holds the pages read, and None after the last one.
    """

    def __init__(
        self, client: Client, endpoint: Endpoint, spans: Sequence[Span], walks: int
    ) -> None:
        self._client, self._endpoint, self._most = client, endpoint, walks
        self._frontiers = deque(Frontier(endpoint, span, walks=walks) for span in spans)
        self._running: dict[asyncio.Task[None], Frontier] = {}
        self.arrived: asyncio.Queue[Reading | None] = asyncio.Queue(maxsize=walks)

    async def run(self) -> None:
        """Run walks until no frontier has anything left."""
        try:
            while self._begin():
                done, _ = await asyncio.wait(self._running, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    frontier = self._running.pop(task)
                    task.result()
                    if frontier not in self._frontiers:
                        self._frontiers.appendleft(frontier)
        finally:
            for task in self._running:
                task.cancel()
            await asyncio.gather(*self._running, return_exceptions=True)
            this = asyncio.current_task()
            if this is None or not this.cancelling():
                # After a cancellation there is no consumer, and the queue may be full.
                await self.arrived.put(None)

    def _begin(self) -> bool:
        """Start walks for what is left to read; return whether any walk is running."""
        while len(self._running) < self._most and (found := self._next_window()):
            frontier, window = found
            self._running[asyncio.create_task(self._walk(frontier, window))] = frontier
        return bool(self._running)

    def _next_window(self) -> tuple[Frontier, Window] | None:
        """Return the next window of the first frontier that has one; drop the others.

        A dropped frontier is added again when one of its walks ends, because that walk may have
        returned a part.
        """
        while self._frontiers:
            window = self._frontiers[0].take()
            if window is not None:
                return self._frontiers[0], window
            self._frontiers.popleft()
        return None

    @property
    def _has_idle(self) -> bool:
        return len(self._running) < self._most and not self._frontiers

    async def _walk(self, frontier: Frontier, window: Window) -> None:
        """Walk a window to its end, or until its rest should be divided.

        It is divided if the window is too full, or if other walks are idle. A walk whose window
        does not shrink continues alone.
        """
        endpoint, partitions, rest = self._endpoint, frontier.span.partitions, window.interval
        count = number = 0
        first: datetime | None = None
        async for page in read_pages(
            self._client, endpoint, interval=window.interval, partitions=partitions
        ):
            number += 1
            count += page.count
            last = event_at(endpoint, page, -1)
            first = first or event_at(endpoint, page, 0)
            before = rest
            proven, rest = after_page(endpoint, before, last, at_end=page.is_last)
            await self.arrived.put(Reading(page, partitions, proven))
            if page.is_last or rest == before:
                continue
            if number >= window.most_pages:
                spread = abs(last - first) if first and last else timedelta(0)
                frontier.returned(window, rest, count, spread)
                return
            if self._has_idle and count and frontier.share(window, rest, count):
                return
        frontier.finished(window, count)
