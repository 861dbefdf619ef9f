"""The form of what /sim/truth tells about causes."""

from typing import Any

from fleetsim import stamps

Fact = dict[str, Any]


def when(instant: int) -> str:
    """Return an instant as ISO text."""
    return stamps.to_datetime(instant).isoformat()


def span(start: int, end: int, until: int) -> Fact:
    """Return the ends of something; it has no end yet if that lies after `until`."""
    return {"started_at": when(start), "ended_at": when(end) if end <= until else None}
