"""Reading the spans of a stream with several walks at a time."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from fleetlake.client import Client
from fleetlake.endpoint import Endpoint
from fleetlake.intervals import Interval
from fleetlake.normalise import Page, event_at
from fleetlake.pages import read_pages
from fleetlake.windows import Frontier, Span, Window, after_page


@dataclass(frozen=True)
class Reading:
    """A page, whom it was asked for, and the range it proves complete (or none)."""

    page: Page
    partitions: tuple[int, ...]
    proven: Interval | None


async def read_spans(
    client: Client, endpoint: Endpoint, spans: Sequence[Span], *, walks: int
) -> AsyncIterator[Reading]:
    """Yield the pages of all spans as they come, with at most `walks` walks under way.

    A slow consumer slows the walks: at most one page per walk waits. Raises: ServiceError for
    a page that fails for good, after yielding what had arrived by then.
    """
    arrived: asyncio.Queue[Reading | None] = asyncio.Queue(maxsize=walks)
    pool = asyncio.create_task(_run_walks(client, endpoint, spans, walks, arrived))
    try:
        while (reading := await arrived.get()) is not None:
            yield reading
        await pool
    finally:
        pool.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await pool


async def _run_walks(
    client: Client,
    endpoint: Endpoint,
    spans: Sequence[Span],
    walks: int,
    arrived: asyncio.Queue[Reading | None],
) -> None:
    """Keep walks going until no frontier has anything left; end the queue with None."""
    frontiers = deque(Frontier(endpoint, span, walks=walks) for span in spans)
    running: dict[asyncio.Task[None], Frontier] = {}
    try:
        while True:
            while len(running) < walks and (found := _next_window(frontiers)):
                frontier, window = found
                walk = _walk(client, endpoint, frontier, window, arrived)
                running[asyncio.create_task(walk)] = frontier
            if not running:
                return
            done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                frontier = running.pop(task)
                task.result()
                if frontier not in frontiers:
                    frontiers.appendleft(frontier)
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        this = asyncio.current_task()
        if this is None or not this.cancelling():
            # A cancelled pool has no consumer left, and the queue may be full.
            await arrived.put(None)


def _next_window(frontiers: deque[Frontier]) -> tuple[Frontier, Window] | None:
    """Return the next window of the first frontier that has one; drop those that have none.

    A frontier dropped here comes back when one of its walks ends, for that walk may have
    given something back.
    """
    while frontiers:
        window = frontiers[0].take()
        if window is not None:
            return frontiers[0], window
        frontiers.popleft()
    return None


async def _walk(
    client: Client,
    endpoint: Endpoint,
    frontier: Frontier,
    window: Window,
    arrived: asyncio.Queue[Reading | None],
) -> None:
    """Walk a window until its end, or until it proves too full and shrinks no further."""
    partitions, rest = frontier.span.partitions, window.interval
    count = number = 0
    first: datetime | None = None
    async for page in read_pages(client, endpoint, interval=window.interval, partitions=partitions):
        number += 1
        count += page.count
        last = event_at(endpoint, page, -1)
        first = first or event_at(endpoint, page, 0)
        progress = after_page(endpoint, rest, last, at_end=page.is_last)
        has_shrunk = progress.rest != rest
        rest = progress.rest
        await arrived.put(Reading(page, partitions, progress.proven))
        if not page.is_last and number >= window.most_pages and has_shrunk:
            frontier.given_back(window, rest, count, _spread(first, last))
            return
    frontier.finished(window, count)


def _spread(first: datetime | None, last: datetime | None) -> timedelta:
    return abs(last - first) if first and last else timedelta(0)
