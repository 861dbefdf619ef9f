"""Half-open ranges of time: proven complete, or still to be read. Pure.

The start is included, the end is not, and instants are UTC. A set of ranges is kept sorted,
disjoint and not adjacent.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
"""Means "as far back as the service holds"."""


@dataclass(frozen=True, order=True)
class Interval:
    """A half-open range `[start, end)` in UTC."""

    start: datetime
    end: datetime

    def __post_init__(self) -> None:
        """Refuse a range that ends before it starts or has no time zone."""
        if self.start.tzinfo is None or self.end.tzinfo is None:
            raise ValueError(f"a range needs instants with a zone: {self.start}, {self.end}")
        if self.start > self.end:
            raise ValueError(f"a range cannot end before it starts: {self.start}, {self.end}")

    @property
    def is_open(self) -> bool:
        """True when the range reaches back as far as the service holds."""
        return self.start == BEGINNING

    @property
    def is_empty(self) -> bool:
        """True when no instant lies in the range."""
        return self.start == self.end


def coalesce(intervals: Iterable[Interval]) -> list[Interval]:
    """Return the union of the ranges as the fewest ranges, oldest first."""
    joined: list[Interval] = []
    for interval in sorted(i for i in intervals if not i.is_empty):
        if joined and interval.start <= joined[-1].end:
            last = joined[-1]
            joined[-1] = Interval(last.start, max(last.end, interval.end))
        else:
            joined.append(interval)
    return joined


def subtract(wanted: Interval, proven: Iterable[Interval]) -> list[Interval]:
    """Return the parts of `wanted` that no proven range covers, oldest first."""
    holes: list[Interval] = []
    start = wanted.start
    for interval in coalesce(proven):
        if interval.end <= start or interval.start >= wanted.end:
            continue
        if interval.start > start:
            holes.append(Interval(start, interval.start))
        start = max(start, interval.end)
    if start < wanted.end:
        holes.append(Interval(start, wanted.end))
    return holes
