"""Spans: the ranges of a stream that are read, each with as many ids as one call takes. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

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
