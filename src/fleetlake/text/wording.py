"""Times, numbers and misspelt names in words, for people. Pure."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from difflib import get_close_matches


def duration_in_words(length: timedelta) -> str:
    """Return a length of time in one unit.

    >>> duration_in_words(timedelta(minutes=150))
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


def age_in_words(moment: datetime | None, now: datetime) -> str:
    """Return how long ago a moment was, in one unit.

    >>> age_in_words(datetime(2026, 1, 1), datetime(2026, 1, 1, 3))
    '3 h ago'
    """
    return "never" if moment is None else f"{duration_in_words(now - moment)} ago"


def install_command(extra: str) -> str:
    """Return what to do about an optional part of the package that is not installed.

    It names the wheel: no index has this project, and another one may have its name there.

    >>> install_command("delta")
    "Install fleetlake's wheel with the extra `delta`: pip install 'fleetlake-….whl[delta]'."
    """
    wheel = f"'fleetlake-….whl[{extra}]'"
    return f"Install fleetlake's wheel with the extra `{extra}`: pip install {wheel}."


def counted(count: int, what: str) -> str:
    """Return a number of things, in words.

    >>> counted(1, "call"), counted(1200, "call")
    ('1 call', '1,200 calls')
    """
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def size_in_words(size: int) -> str:
    """Return a number of bytes as people read it.

    >>> size_in_words(0), size_in_words(1_234_567), size_in_words(5_300_000_000)
    ('0.0 MB', '1.2 MB', '5,300.0 MB')
    """
    return f"{size / 1_000_000:,.1f} MB"


def did_you_mean(name: str, known: Iterable[str], *, prefix: str = "") -> str:
    """Return a question with the known name that is nearest to a misspelt one, or "".

    `prefix` is written before the known name, and is not compared.

    >>> did_you_mean("tripps", ["stops", "trips"]), did_you_mean("boats", ["stops", "trips"])
    ('Did you mean trips? ', '')
    """
    nearest = get_close_matches(name, known, n=1)
    return f"Did you mean {prefix}{nearest[0]}? " if nearest else ""
