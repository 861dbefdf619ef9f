"""Times in words, for people."""

from datetime import datetime, timedelta

from fleetlake.intervals import BEGINNING


def spoken_length(length: timedelta) -> str:
    """Return a length of time in one unit.

    >>> spoken_length(timedelta(minutes=150))
    '2 h'
    """
    length = max(length, timedelta(0))
    for unit, size in (
        ("d", timedelta(days=2)),
        ("h", timedelta(hours=2)),
        ("min", timedelta(minutes=2)),
    ):
        if length >= size:
            return f"{length // (size / 2)} {unit}"
    return f"{length // timedelta(seconds=1)} s"


def spoken_age(moment: datetime | None, now: datetime) -> str:
    """Return how long ago a moment was, in one unit.

    >>> spoken_age(datetime(2026, 1, 1), datetime(2026, 1, 1, 3))
    '3 h ago'
    """
    return "never" if moment is None else f"{spoken_length(now - moment)} ago"


def spoken_start(start: datetime | None) -> str:
    """Return from when a stream is complete, in words."""
    if start is None:
        return ""
    return "its beginning" if start == BEGINNING else f"{start:%Y-%m-%d %H:%M}"
