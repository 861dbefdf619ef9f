"""Cutting one time-ordered stream into windows that are read at the same time.

Pure: what to ask next, decided from what the answers held. A walk through one window is a
normal walk of the cursor; windows only decide where it starts and stops.

The first page of a span tells how dense it is. The rest is cut into windows of up to
`PAGES_PER_WINDOW` pages; each finished window corrects the measure, an empty one lets the next
grow, and one that turns out far too full is given back and cut again. Where walks would be idle
at the end, what others have still before them is given back too, and shared.

Where the stream's beginning is not known, a window may lie before it and be asked for in vain.
So one probe at a time leaps ahead and asks for all that is older still: sixteen times as far
back as records were met, and once that brought none, the middle of what is in doubt. All that is
newer than a record met is read without a doubt meanwhile, and a probe in vain is a proof: the
service itself says that there is no more.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from fleetlake.endpoints.model import Endpoint
from fleetlake.planning.intervals import BEGINNING, Interval

PAGES_PER_WINDOW = 12
"""A window's last page is half empty on average: twelve pages cost about 4 % more calls."""

FEWEST_PAGES = 7
"""Windows grow smaller towards the end, so that the last walks do not run alone."""

FEWEST_SHARED_PAGES = 6
"""What is left of a window is shared with an idle walk down to this many pages."""

FULL_WINDOW_PAGES = 2 * PAGES_PER_WINDOW
LEAP = 16
SHORTEST_LEAP_PAGES = 3
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

    def __init__(self, endpoint: Endpoint, span: Span, *, walks: int = 1) -> None:
        self.span = span
        self._walks = walks
        self._page_size = endpoint.page_size
        self._is_newest_first = endpoint.cursor.is_newest_first
        # What the service forgets soonest is read first.
        self._oldest_first = endpoint.retention is not None
        self._left = [span.interval]  # oldest first
        self._halves: list[Window] = []
        self._per_second: float | None = None  # records; unknown until the first page
        self._probe: Window | None = None
        interval = span.interval
        # There are records as far back as here, or all is to be read without asking whether.
        self._met_from = interval.end if interval.is_open else interval.start
        # There are none before this.
        self._none_until = interval.start
        self._newest = interval.end

    def take(self) -> Window | None:
        """Return the next window to read, or None when nothing is to be asked for now."""
        if self._halves:
            return self._halves.pop()
        if not self._left:
            return None
        if self._per_second is None:
            return Window(self._left.pop(), most_pages=1)
        if self._probe is None and (older := self._older(self._per_second)):
            self._probe = Window(self._taken(older), most_pages=1)
            return self._probe
        sure = [stretch for stretch in self._left if stretch.start >= self._met_from]
        if not sure:
            return None  # what the probe finds tells how to go on
        stretch = sure[0 if self._oldest_first else -1]
        window = self._cut(stretch, self._width(self._per_second, sure))
        return Window(self._taken(window), most_pages=FULL_WINDOW_PAGES)

    def finished(self, window: Window, count: int) -> None:
        """Learn from a window that was read to its end and held `count` records."""
        if window is self._probe:
            self._probe = None
            self._none_until = window.interval.end
            if count:
                self._met_from = window.interval.end
        elif count == 0:
            self._per_second = (self._per_second or 1.0) / GROWTH
        elif not window.interval.is_open:
            self._measure(count, window.interval.end - window.interval.start)

    def given_back(self, window: Window, rest: Interval, count: int, spread: timedelta) -> None:
        """Take back what was not read of a window whose `count` records spread so far."""
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
        """Take back the rest of a window to be read as two, since a walk has nothing to do.

        It is not cut by what the window held so far: two halves cost one more call at most.
        """
        middle = rest.start + (rest.end - rest.start) / 2
        for half in (Interval(rest.start, middle), Interval(middle, rest.end)):
            self._halves.append(Window(half, most_pages=FULL_WINDOW_PAGES))

    def _older(self, per_second: float) -> Interval | None:
        """Return all that is older than where to look next; None where nothing is in doubt."""
        doubt = self._met_from - self._none_until
        if doubt <= self._length(FEWEST_PAGES, per_second):
            self._met_from = self._none_until  # too little to go on probing
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
        """Return how long a window should be, given all that is read without a doubt."""
        seconds = sum((stretch.end - stretch.start).total_seconds() for stretch in sure)
        pages = seconds * per_second / self._page_size / self._walks
        return self._length(min(max(pages, FEWEST_PAGES), PAGES_PER_WINDOW), per_second)

    def _length(self, pages: float, per_second: float) -> timedelta:
        """Return the time that so many pages take up."""
        seconds = min(pages * self._page_size / per_second, LARGEST_WINDOW.total_seconds())
        return max(timedelta(seconds=seconds), SMALLEST_WINDOW)

    def _cut(self, stretch: Interval, width: timedelta) -> Interval:
        """Return a window from the end of the stretch that goes first."""
        if stretch.end - stretch.start <= width * 1.5:
            return stretch
        if self._oldest_first:
            return Interval(stretch.start, stretch.start + width)
        return Interval(stretch.end - width, stretch.end)

    def _taken(self, window: Interval) -> Interval:
        """Take a window out of the stretch that holds it."""
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
    """Return whether a window's rest is worth halving, given how its `count` records spread."""
    length = rest.end - rest.start
    pages = length / max(spread, _MICROSECOND) * count / endpoint.page_size
    return length > _MICROSECOND and pages >= FEWEST_SHARED_PAGES


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
