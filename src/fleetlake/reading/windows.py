"""Dividing one time-ordered stream into windows that are read concurrently.

Pure: it decides what to request next from what the responses contained. A walk through a window is
an ordinary walk of the cursor; the window only sets where it starts and stops.

The first page of a span shows how dense the span is. The rest is divided into windows of up to
`PAGES_PER_WINDOW` pages. Each finished window corrects the estimate, and an empty one makes the
next larger. The unread rest of a window that is far too full is returned and divided again. When
walks become idle at the end, the others return part of their rest for them.

If the beginning of the stream is unknown, a window may lie before it and waste a request. So one
probe at a time requests everything older than a point far back: sixteen times as far as records
were found or, after a probe without records, the middle of the uncertain range. In the meantime,
everything newer than a found record is read. A probe without records proves that there is nothing
older.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from fleetlake.endpoints.model import Endpoint
from fleetlake.planning.intervals import BEGINNING, Interval

PAGES_PER_WINDOW = 16
"""A window's last page is half empty on average; with 16 pages that is 3 % more calls."""

MIN_PAGES = 9
"""Minimum pages of a window. Windows shrink to this towards the end, so that no walk runs alone."""

MIN_SHARED_PAGES = 10
"""Minimum pages left in a window for an idle walk to share it, at the cost of one more call."""

FULL_WINDOW_PAGES = 2 * PAGES_PER_WINDOW
LEAP = 16
SHORTEST_LEAP_PAGES = 3
GROWTH = 4.0
SMALLEST_WINDOW = timedelta(seconds=1)
LARGEST_WINDOW = timedelta(days=36_500)
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True)
class Span:
    """A range of event time to read, for the ids of one call of a fan-out (or none)."""

    partitions: tuple[int, ...]
    interval: Interval


@dataclass(frozen=True)
class Window:
    """Part of a span. Its rest is returned if `most_pages` pages do not reach its end."""

    interval: Interval
    most_pages: int


class Frontier:
    """The part of a span that is not requested yet."""

    def __init__(self, endpoint: Endpoint, span: Span, *, walks: int = 1) -> None:
        self.span = span
        self._walks = walks
        self._page_size = endpoint.page_size
        self._is_newest_first = endpoint.cursor.is_newest_first
        # Read first what the service deletes first.
        self._oldest_first = endpoint.retention is not None
        self._left = [span.interval]  # oldest first
        self._halves: list[Window] = []
        self._per_second: float | None = None  # records; unknown until the first page
        self._probe: Window | None = None
        interval = span.interval
        # Records exist as far back as here, or the whole span is read without probing.
        self._met_from = interval.end if interval.is_open else interval.start
        # No records exist before this.
        self._none_until = interval.start
        self._newest = interval.end

    def take(self) -> Window | None:
        """Return the next window to read, or None if there is nothing to request now."""
        if self._halves:
            return self._halves.pop()
        if not self._left:
            return None
        if self._per_second is None:
            return Window(self._left.pop(), most_pages=1)
        if self._probe is None and (older := self._older(self._per_second)):
            self._probe = Window(self._remove(older), most_pages=1)
            return self._probe
        certain = [stretch for stretch in self._left if stretch.start >= self._met_from]
        if not certain:
            return None  # the result of the probe decides what is next
        stretch = certain[0 if self._oldest_first else -1]
        window = self._cut(stretch, self._width(self._per_second, certain))
        return Window(self._remove(window), most_pages=FULL_WINDOW_PAGES)

    def finished(self, window: Window, count: int) -> None:
        """Update the estimate after a window was read to its end; it held `count` records."""
        if window is self._probe:
            self._probe = None
            self._none_until = window.interval.end
            if count:
                self._met_from = window.interval.end
        elif count == 0:
            self._per_second = (self._per_second or 1.0) / GROWTH
        elif not window.interval.is_open:
            self._measure(count, window.interval.end - window.interval.start)

    def returned(self, window: Window, rest: Interval, count: int, spread: timedelta) -> None:
        """Accept the unread rest of a window whose `count` records span `spread` so far."""
        if self._per_second is None:
            self._measure(count, spread)
            if self._is_newest_first:
                self._newest = rest.end + spread
                self._met_from = rest.end if rest.is_open else rest.start
            else:
                self._none_until = self._met_from = rest.start
        elif window is self._probe:
            self._probe = None
            self._met_from = rest.end
        else:
            self._measure(count, spread)
        self._put_back(rest)

    def shared(self, rest: Interval) -> None:
        """Accept the unread rest of a window and split it in two, because a walk is idle.

        It is split in half, not by density, because that costs at most one more call.
        """
        middle = rest.start + (rest.end - rest.start) / 2
        for half in (Interval(rest.start, middle), Interval(middle, rest.end)):
            self._halves.append(Window(half, most_pages=FULL_WINDOW_PAGES))

    def _older(self, per_second: float) -> Interval | None:
        """Return everything older than the next point to probe; None if nothing is uncertain."""
        doubt = self._met_from - self._none_until
        if doubt <= self._length(MIN_PAGES, per_second):
            self._met_from = self._none_until  # too short to probe further
            return None
        back = doubt / 2
        if self._none_until == BEGINNING:
            met = min(self._newest - self._met_from, doubt / LEAP)
            leap = max(self._length(SHORTEST_LEAP_PAGES, per_second), (LEAP - 1) * met)
            back = min(back, leap)
        return Interval(self._none_until, self._met_from - back)

    def _measure(self, count: int, spread: timedelta) -> None:
        self._per_second = count / max(spread, _MICROSECOND).total_seconds()

    def _width(self, per_second: float, sure: Sequence[Interval]) -> timedelta:
        """Return how long a window should be, given the ranges that certainly hold records."""
        seconds = sum((stretch.end - stretch.start).total_seconds() for stretch in sure)
        pages = seconds * per_second / self._page_size / self._walks
        return self._length(min(max(pages, MIN_PAGES), PAGES_PER_WINDOW), per_second)

    def _length(self, pages: float, per_second: float) -> timedelta:
        """Return the time that a number of pages spans."""
        seconds = min(pages * self._page_size / per_second, LARGEST_WINDOW.total_seconds())
        return max(timedelta(seconds=seconds), SMALLEST_WINDOW)

    def _cut(self, stretch: Interval, width: timedelta) -> Interval:
        """Return a window from that end of the stretch which is read first."""
        if stretch.end - stretch.start <= width * 1.5:
            return stretch
        if self._oldest_first:
            return Interval(stretch.start, stretch.start + width)
        return Interval(stretch.end - width, stretch.end)

    def _remove(self, window: Interval) -> Interval:
        """Remove a window from the stretch that contains it."""
        for stretch in self._left:
            if stretch.start <= window.start and window.end <= stretch.end:
                self._left.remove(stretch)
                self._put_back(Interval(stretch.start, window.start))
                self._put_back(Interval(window.end, stretch.end))
                return window
        raise AssertionError(f"{window} is not left to be read")

    def _put_back(self, rest: Interval) -> None:
        if not rest.is_empty:
            self._left.append(rest)
            self._left.sort()


def is_worth_sharing(endpoint: Endpoint, rest: Interval, count: int, spread: timedelta) -> bool:
    """Return whether a window's rest is worth splitting, given how its `count` records spread."""
    length = rest.end - rest.start
    pages = length / max(spread, _MICROSECOND) * count / endpoint.page_size
    return length > _MICROSECOND and pages >= MIN_SHARED_PAGES


@dataclass(frozen=True)
class WalkProgress:
    """What a page proves complete of the range being read, and what is left of it."""

    proven: Interval | None
    rest: Interval


def after_page(
    endpoint: Endpoint, rest: Interval, last: datetime | None, *, at_end: bool
) -> WalkProgress:
    """Return the state of a walk after a page whose last record happened at `last`.

    The next page may hold more records of the same microsecond, so that microsecond is not proven
    yet. Without a promised order, nothing is proven before the end.
    """
    if at_end:
        return WalkProgress(rest, Interval(rest.start, rest.start))
    if last is None or not endpoint.is_ordered:
        return WalkProgress(None, rest)
    if endpoint.cursor.is_newest_first:
        edge = min(max(last + _MICROSECOND, rest.start), rest.end)
        return WalkProgress(Interval(edge, rest.end), Interval(rest.start, edge))
    edge = min(max(last, rest.start), rest.end)
    return WalkProgress(Interval(rest.start, edge), Interval(edge, rest.end))


TOGETHER = timedelta(hours=1)
"""Partitions whose ranges start further apart are not requested in one call."""


def spans_of(endpoint: Endpoint, wanted: Sequence[tuple[int | None, Interval]]) -> list[Span]:
    """Return the wanted ranges as spans, each with as many partitions as a call takes.

    Partitions share a call only if their ranges start close together. Otherwise one that lags
    behind would cause the others to be read again.
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
