"""The parameters of an address, typed: every value that a query takes from outside. Pure."""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from math import isfinite

from fleetlake.errors import UsageError

LAST = "last"
"""The parameter for a range that ends at the newest event, e.g. `7d`."""

LONGEST_TEXT = 200

MOST_ROUTERS = 12
"""Routers that one address chooses at most, e.g. for their tracks."""

_RANGES = {"1h": 1, "6h": 6, "24h": 24, "7d": 168, "30d": 720, "90d": 2160}


def typed(given: Mapping[str, str], *, as_of: datetime) -> dict[str, object]:
    """Return the parameters of an address with their types; empty ones are left out.

    `last` becomes `from`, counted back from `as_of`. Raises: UsageError naming the parameter that
    there is not, or that cannot be read.
    """
    for name in given.keys() - PARAMETERS.keys() - {LAST}:
        raise UsageError(
            f"There is no filter {name[:LONGEST_TEXT]!r}.",
            remedy=f"The filters are {', '.join([LAST, *PARAMETERS])}.",
        )
    values: dict[str, object] = {}
    for name, text in given.items():
        if name != LAST and text.strip():
            values[name] = _read(name, text.strip())
    if (hours := _RANGES.get(given.get(LAST, ""))) and not values.keys() & {"from", "to"}:
        values["from"] = as_of - timedelta(hours=hours)
    return values


def instant(text: str) -> datetime:
    """Return an ISO time; without a zone it is UTC.

    >>> instant("2026-11-01").isoformat()
    '2026-11-01T00:00:00+00:00'
    """
    value = datetime.fromisoformat(text)
    return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)


def _read(name: str, text: str) -> object:
    try:
        return PARAMETERS[name](text)
    except (ValueError, OverflowError):
        raise UsageError(
            f"The filter {name!r} cannot be read: {text[:LONGEST_TEXT]!r}.",
            remedy="Choose it again, or remove it from the address.",
        ) from None


def _text(text: str) -> str:
    if len(text) > LONGEST_TEXT or "\0" in text:
        raise ValueError("too long")
    return text


def _id(text: str) -> int:
    value = int(text)
    if not 0 <= value < 2**63:
        raise ValueError("not an id")
    return value


def _ids(text: str) -> list[int]:
    ids = [_id(one) for one in text.split(",")]
    if len(ids) > MOST_ROUTERS:
        raise ValueError("too many")
    return ids


def _number(text: str) -> float:
    value = float(text)
    if not isfinite(value):
        raise ValueError("not a number")
    return value


def _name(text: str) -> str:
    if not re.fullmatch(r"-?\w{1,100}", text):
        raise ValueError("not a name")
    return text


PARAMETERS: Mapping[str, Callable[[str], object]] = {
    "account": _id,
    "group": _id,
    "router": _id,
    "vehicles": _ids,
    "carrier": _text,
    "type": _text,
    "episode": _text,
    "from": instant,
    "to": instant,
    "day": date.fromisoformat,
    "at": instant,
    "search": _text,
    **dict.fromkeys(("state", "product", "firmware", "behind", "risk", "licence"), _text),
    "table": _name,
    "sort": _name,
    "zoom": _number,
    "west": _number,
    "south": _number,
    "east": _number,
    "north": _number,
}
"""Every parameter that a query may take, with what reads its text."""
