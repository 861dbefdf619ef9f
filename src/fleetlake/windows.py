"""Cutting one time-ordered stream into windows that are read at the same time.

Pure: what to ask next, decided from what the answers held. A walk through one window is a
normal walk of the cursor; windows only decide where it starts and stops.

The first page of a span tells how dense it is. The rest is cut into windows of up to
`PAGES_PER_WINDOW` pages; each finished window corrects the measure, an empty one lets the next
grow, and one that turns out far too full is given back and cut again.

Where the stream's beginning is not known, a window may lie before it and be asked for in vain.
So windows there start small and few and grow with what was read, and the first thin one is
followed by one request for everything older: the service itself says that there is no more.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from fleetlake.endpoint import Endpoint
from fleetlake.intervals import Interval

PAGES_PER_WINDOW = 12
"""A window's last page is half empty on average: twelve pages cost about 4 % more calls."""

FULL_WINDOW_PAGES = 2 * PAGES_PER_WINDOW
FEWEST_PAGES = 2
GROWTH = 4.0
SMALLEST_WINDOW = timedelta(seconds=1)
LARGEST_WINDOW = timedelta(days=36_500)
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True)
class Span:
    """A stretch of event time to read, for the ids of one call of a fan-out (or none)."""

    partitions: tuple[int, ...]
    interval: Interval


@dataclass(frozen=True)
class Window:
    """Part of a span, to be given back once `most_pages` are read and it is not at its end."""

    interval: Interval
    most_pages: int


class Frontier:
    """What of a span is still to be asked for."""

    def __init__(self, endpoint: Endpoint, span: Span) -> None:
        self.span = span
        self._page_size = endpoint.page_size
        self._left = [span.interval]  # oldest first
        self._per_second: float | None = None  # records; unknown until the first page
        self._pages_read = 0.0
        self._under_way = 0
        self._seems_over = False
        # What the service forgets soonest is read first.
        self._oldest_first = endpoint.retention is not None

    def take(self) -> Window | None:
        """Return the next window to read, or None when nothing is to be asked for now."""
        place = 0 if self._oldest_first else -1
        if not self._left or (self._left[place].is_open and self._is_far_ahead()):
            return None
        stretch = self._left.pop(place)
        self._under_way += 1
        if self._per_second is None or (stretch.is_open and self._seems_over):
            return Window(stretch, most_pages=1)
        window, rest = self._cut(stretch, self._width(self._per_second, stretch))
        if rest is not None:
            self._put_back(rest)
        return Window(window, most_pages=FULL_WINDOW_PAGES)

    def finished(self, window: Window, count: int) -> None:
        """Learn from a window that was read to its end and held `count` records."""
        length = window.interval.end - window.interval.start
        expected = (self._per_second or 0.0) * length.total_seconds()
        self._seems_over = count == 0 or count < expected / 2
        self._has_read(count)
        if count == 0:
            self._per_second = (self._per_second or 1.0) / GROWTH
        elif not window.interval.is_open:
            self._measure(count, length)

    def given_back(self, rest: Interval, count: int, spread: timedelta) -> None:
        """Take back what was not read of a window whose `count` records spread so far."""
        self._seems_over = False
        self._has_read(count)
        self._measure(count, spread)
        self._put_back(rest)

    def _has_read(self, count: int) -> None:
        self._under_way -= 1
        self._pages_read += count / self._page_size

    def _is_far_ahead(self) -> bool:
        """Return whether more windows are under way than what was read makes likely."""
        return self._under_way > self._pages_read / 2

    def _measure(self, count: int, spread: timedelta) -> None:
        self._per_second = count / max(spread, _MICROSECOND).total_seconds()

    def _width(self, per_second: float, stretch: Interval) -> timedelta:
        pages: float = PAGES_PER_WINDOW
        if stretch.is_open:
            pages = min(max(self._pages_read, FEWEST_PAGES), PAGES_PER_WINDOW)
        seconds = pages * self._page_size / per_second
        widest = LARGEST_WINDOW.total_seconds()
        return max(timedelta(seconds=min(seconds, widest)), SMALLEST_WINDOW)

    def _cut(self, stretch: Interval, width: timedelta) -> tuple[Interval, Interval | None]:
        """Return a window from the end that goes first, and the rest of the stretch."""
        if stretch.end - stretch.start <= width * 1.5:
            return stretch, None
        if self._oldest_first and not stretch.is_open:
            middle = stretch.start + width
            return Interval(stretch.start, middle), Interval(middle, stretch.end)
        middle = stretch.end - width
        return Interval(middle, stretch.end), Interval(stretch.start, middle)

    def _put_back(self, rest: Interval) -> None:
        self._left.append(rest)
        self._left.sort()


@dataclass(frozen=True)
class Progress:
    """What a page proves complete of the range being read, and what is left of it."""

    proven: Interval | None
    rest: Interval


def after_page(
    endpoint: Endpoint, rest: Interval, last: datetime | None, *, at_end: bool
) -> Progress:
    """Return where a walk stands after a page whose last record happened at `last`.

    Records that share that microsecond may still be on the next page, so it stays unproven
    until the walk goes beyond it. An order that the service does not promise proves nothing
    before the end.
    """
    if at_end:
        return Progress(rest, Interval(rest.start, rest.start))
    if last is None or not endpoint.is_ordered:
        return Progress(None, rest)
    if endpoint.cursor.is_newest_first:
        edge = min(max(last + _MICROSECOND, rest.start), rest.end)
        return Progress(Interval(edge, rest.end), Interval(rest.start, edge))
    edge = min(max(last, rest.start), rest.end)
    return Progress(Interval(rest.start, edge), Interval(edge, rest.end))


TOGETHER = timedelta(hours=1)
"""Partitions whose ranges begin further apart are not asked for in one call."""


def spans_of(endpoint: Endpoint, wanted: Sequence[tuple[int | None, Interval]]) -> list[Span]:
    """Return the wanted ranges as spans, as many partitions in one as a call takes.

    Partitions travel together only where their ranges begin together, so that one that lags
    does not make the others be read again.
    """
    if endpoint.fan_out is None:
        return [Span((), interval) for _, interval in wanted]
    spans: list[Span] = []
    chunk: list[tuple[int, Interval]] = []
    for partition, interval in sorted(wanted, key=lambda item: (item[1].start, item[0] or 0)):
        is_full = len(chunk) == endpoint.fan_out.ids_per_call
        if chunk and (is_full or interval.start - chunk[0][1].start > TOGETHER):
            spans.append(_joined(chunk))
            chunk = []
        chunk.append((partition or 0, interval))
    return [*spans, _joined(chunk)] if chunk else spans


def _joined(chunk: Sequence[tuple[int, Interval]]) -> Span:
    start = min(interval.start for _, interval in chunk)
    end = max(interval.end for _, interval in chunk)
    return Span(tuple(partition for partition, _ in chunk), Interval(start, end))
