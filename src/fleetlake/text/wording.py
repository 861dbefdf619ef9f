"""Times, numbers and names in words, for people."""

from datetime import datetime, timedelta

from fleetlake.planning.intervals import BEGINNING
from fleetlake.settings import DEFAULT_PROFILE


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


def counted(count: int, what: str) -> str:
    """Return a number of things, in words.

    >>> counted(1, "call"), counted(1200, "call")
    ('1 call', '1,200 calls')
    """
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def named(endpoint: str, profile: str) -> str:
    """Return a stream's name, with its account where that is not the default one.

    >>> named("alerts", "default"), named("alerts", "west")
    ('alerts', 'alerts of west')
    """
    return endpoint if profile == DEFAULT_PROFILE else f"{endpoint} of {profile}"
