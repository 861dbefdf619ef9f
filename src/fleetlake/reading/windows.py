"""Dividing one time-ordered stream into windows that are read concurrently.

Pure: it decides what to request next from what the responses contained. A walk through a window is
an ordinary walk of the cursor; the window only sets where it starts and stops.

The first page of a span shows how dense its records are there. Then probes explore the rest: they
divide it between them, and each reads one page. This shows the density in several places. A stretch
that is newer than a found record certainly holds records. The oldest one left may lie before the
beginning of the stream, so it is explored again until it is short enough for one walk. A probe
before the beginning is a wasted call, so few run at a time. While nothing is known about the
beginning, they reach sixteen times as far back as records were found, and sixteen times that.

What certainly holds records is divided into windows of up to `PAGES_PER_WINDOW` pages, by the lower
of the densities found on both sides: a window that is too full is divided again, but an empty one
is a wasted call. Each finished window adds its density. When walks become idle, the others return
part of their rest for them.
"""

import math
from bisect import bisect, insort
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

from fleetlake.endpoints.model import Endpoint
from fleetlake.planning.intervals import Interval

TOGETHER = timedelta(hours=1)
"""Partitions whose ranges start further apart are not requested in one call."""


@dataclass(frozen=True)
class Span:
    """A range of event time to read, for the ids of one call of a fan-out (or none)."""

    partitions: tuple[int, ...]
    interval: Interval


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


PAGES_PER_WINDOW = 16
"""A window's last page is half empty on average; with 16 pages that is 3 % more calls."""

MIN_PAGES = 9
"""Minimum pages of a window, and minimum pages left in one for an idle walk to share it.

Windows shrink to this towards the end, so that no walk runs alone. Each costs half a call more.
"""

FULL_WINDOW_PAGES = 2 * PAGES_PER_WINDOW

PROBES = 3
"""Maximum concurrent probes while the stream may begin between them."""

PROBES_IF_BUSY = 2
"""The same while every walk has something to read: fewer probes waste fewer calls."""

LEAP = 16
SHORTEST_LEAP_PAGES = 3
GROWTH = 4.0
SMALLEST_WINDOW = timedelta(seconds=1)
LARGEST_WINDOW = timedelta(days=36_500)
_MICROSECOND = timedelta(microseconds=1)


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
        self._left: list[Interval] = []  # oldest first
        self._ready = [Window(span.interval, most_pages=1)]
        self._probes: list[Window] = []  # not finished or returned yet
        self._densities: list[tuple[datetime, float]] = []  # records per second, oldest first
        self._newest = span.interval.end
        self._met_from = span.interval.end  # records exist as far back as here
        self._has_gaps = False  # a probe found no records

    def take(self) -> Window | None:
        """Return the next window to read, or None if there is nothing to request now."""
        if self._left and not self._probes:
            self._explore()
        if self._ready:
            return self._ready.pop()
        certain = self._certain()
        if not certain:
            return None  # what the probes find decides what is next
        stretch = certain[0 if self._oldest_first else -1]
        window = self._cut(stretch, self._width(stretch))
        return Window(self._remove(window), most_pages=FULL_WINDOW_PAGES)

    def finished(self, window: Window, count: int) -> None:
        """Update the estimates after a window was read to its end; it held `count` records."""
        interval = window.interval
        if window in self._probes:
            self._probes.remove(window)
            if count:
                self._met_from = min(self._met_from, interval.end)
            self._has_gaps = self._has_gaps or not count
        else:
            expected = count or self._records(interval) / GROWTH
            self._note(interval.start, expected, _length(interval))

    def returned(self, window: Window, rest: Interval, count: int, spread: timedelta) -> None:
        """Accept the unread rest of a window whose `count` records span `spread` so far."""
        edge = rest.end if self._is_newest_first else rest.start
        if self._densities:
            self._note(edge, count, _length(window.interval) - _length(rest))
        else:  # the span may begin or end far from its first records
            self._note(edge, count, spread)
            self._newest = edge + spread
        if window in self._probes:
            self._probes.remove(window)
            self._met_from = min(self._met_from, edge)
        self._put_back(rest)

    def share(self, window: Window, rest: Interval, count: int) -> bool:
        """Divide the unread rest of a window for an idle walk, if that is worth one more call.

        `count` is the number of records read so far. The part read first is half of the rest, but
        no more than `FULL_WINDOW_PAGES` at the density found so far: in a burst, half of the time
        may still hold all of the records.
        """
        length = _length(rest)
        page = (_length(window.interval) - length) * self._page_size / count
        if length <= _MICROSECOND or length < MIN_PAGES * page:
            return False
        first = max(min(length / 2, FULL_WINDOW_PAGES * page), _MICROSECOND)
        edge = rest.end - first if self._is_newest_first else rest.start + first
        parts = [Interval(rest.start, edge), Interval(edge, rest.end)]
        for part in reversed(parts) if self._oldest_first else parts:  # the last is taken first
            self._ready.append(Window(part, most_pages=FULL_WINDOW_PAGES))
        return True

    def _explore(self) -> None:
        """Send probes into the oldest stretch that is left, or one walk if it is short."""
        doubt = self._left[0]
        if doubt.start >= self._met_from:
            return
        self._left.remove(doubt)
        if edges := self._edges(doubt):
            parts = pairwise([doubt.start, *edges, doubt.end])
            self._probes = [Window(Interval(*part), most_pages=1) for part in parts]
            self._ready += reversed(self._probes)  # the oldest is taken first
        else:
            self._met_from = doubt.start
            self._ready.append(Window(doubt, most_pages=FULL_WINDOW_PAGES))

    def _edges(self, doubt: Interval) -> list[datetime]:
        """Return where to divide a stretch between probes, oldest first."""
        length, density = _length(doubt), self._density(doubt)
        probes = min(self._most_probes(), length // self._time(PAGES_PER_WINDOW, density))
        backs = [length * number / probes for number in range(1, probes)]
        if doubt.is_open:
            met = max(self._newest - doubt.end, self._time(SHORTEST_LEAP_PAGES, density) / LEAP)
            leaps = [met * (LEAP**number - 1) for number in range(1, probes)]
            backs = list(map(min, backs, leaps))
        return [doubt.end - back for back in reversed(backs)]

    def _most_probes(self) -> int:
        if not ((self._is_newest_first and self.span.interval.is_open) or self._has_gaps):
            return max(PROBES, self._walks)  # as far as is known, records are everywhere
        return PROBES if self._pages_per_walk() < MIN_PAGES else PROBES_IF_BUSY

    def _certain(self) -> list[Interval]:
        """Return what certainly holds records and is not requested yet, oldest first."""
        return [stretch for stretch in self._left if stretch.start >= self._met_from]

    def _note(self, edge: datetime, count: float, length: timedelta) -> None:
        """Note the density of a range that was read up to `edge`, or from there on."""
        insort(self._densities, (edge, count / max(length, _MICROSECOND).total_seconds()))

    def _density(self, stretch: Interval) -> float:
        """Return the records per second to expect: the lower density of the two sides."""
        older = bisect(self._densities, (stretch.start, math.inf))
        newer = bisect(self._densities, (stretch.end, 0.0))
        near = self._densities[max(older - 1, 0) : older] + self._densities[newer : newer + 1]
        return min((density for _, density in near), default=1.0)

    def _width(self, stretch: Interval) -> timedelta:
        """Return how long a window at either end of a stretch should be."""
        pages = min(max(self._pages_per_walk(), MIN_PAGES), PAGES_PER_WINDOW)
        return self._time(pages, self._density(stretch))

    def _pages_per_walk(self) -> float:
        """Return each walk's share of what certainly holds records, in pages."""
        return sum(map(self._records, self._certain())) / self._page_size / self._walks

    def _records(self, stretch: Interval) -> float:
        """Return the number of records to expect in a stretch."""
        return self._density(stretch) * _length(stretch).total_seconds()

    def _time(self, pages: float, density: float) -> timedelta:
        """Return the time that a number of pages spans."""
        seconds = min(pages * self._page_size / density, LARGEST_WINDOW.total_seconds())
        return max(timedelta(seconds=seconds), SMALLEST_WINDOW)

    def _cut(self, stretch: Interval, width: timedelta) -> Interval:
        """Return a window from that end of the stretch which is read first."""
        if _length(stretch) <= width * 1.5:
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


def _length(interval: Interval) -> timedelta:
    return interval.end - interval.start


def after_page(
    endpoint: Endpoint, rest: Interval, last: datetime | None, *, at_end: bool
) -> tuple[Interval | None, Interval]:
    """Return what a page proves complete of the range being read, and what is left of it.

    Its last record happened at `last`. The next page may hold more records of that microsecond, so
    it is not proven yet. Without a promised order, nothing is proven before the end.
    """
    if at_end:
        return rest, Interval(rest.start, rest.start)
    if last is None or not endpoint.is_ordered:
        return None, rest
    if endpoint.cursor.is_newest_first:
        edge = min(max(last + _MICROSECOND, rest.start), rest.end)
        return Interval(edge, rest.end), Interval(rest.start, edge)
    edge = min(max(last, rest.start), rest.end)
    return Interval(rest.start, edge), Interval(edge, rest.end)
