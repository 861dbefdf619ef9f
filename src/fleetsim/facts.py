"""The format of the facts that /sim/truth reports about causes."""

from typing import Any

from fleetsim import stamps

Fact = dict[str, Any]


def when(instant: int) -> str:
    """Return an instant as ISO text."""
    return stamps.to_datetime(instant).isoformat()


def span(start: int, end: int, until: int) -> Fact:
    """Return start and end; `ended_at` is null if the end is after `until`."""
    return {"started_at": when(start), "ended_at": when(end) if end <= until else None}
