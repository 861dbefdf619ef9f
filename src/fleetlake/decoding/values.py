"""Converting single values: how a column's kind stores what the service sent. Pure.

The lenient reader uses these functions. Each returns the value as stored, None for null, or
raises ValueError saying what is wrong.

The hosts of the service's own URLs vary from read to read. So where content is compared, they are
left out. What is stored is the text that the service sent.
"""

import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec

from fleetlake.decoding.timeuuid import embedded_time
from fleetlake.endpoints.columns import Kind

ROOT = re.compile(rb"/api/v[23]/")
"""What each of the service's URLs contains, in bytes."""

_HOST = re.compile(r'https?://[^/?#\s"\\]+(?=/api/v[23]/)', re.IGNORECASE)


def without_hosts(text: str) -> str:
    """Return a text, or JSON text, without the hosts of the service's own URLs in it.

    >>> without_hosts('{"self":"https://us0.example/api/v3/users/7"}')
    '{"self":"/api/v3/users/7"}'
    >>> without_hosts("https://other.example/page")
    'https://other.example/page'
    """
    return _HOST.sub("", text)


INT64_LIMIT = 2**63

EXACT_LIMIT = 2**53
"""From this magnitude on, one double represents several integers.

Such a number is rejected as an id or a count. Columns of doubles accept it, as in the contract.
"""

MAX_LINK_CHARACTERS = 8_000
"""Maximum length of a link; no service accepts a longer address."""

_OFFSET_BEYOND_59_MINUTES = re.compile(r"[+-][0-9]{2}:?[6-9][0-9][0-9:.,]*$")


def read_value(kind: Kind, value: Any) -> Any:
    """Return the value as a column of that kind stores it.

    Raises: ValueError if the value is not of that kind.

    >>> read_value(Kind.ID, "371193"), read_value(Kind.FLAG, "true")
    (371193, True)
    """
    if kind in _NULL_WORD_KINDS and isinstance(value, str) and value.lower() == "null":
        return None
    try:
        return None if value is None else _READERS[kind](value)
    except OverflowError:
        raise ValueError("too large a value") from None


_NULL_WORD_KINDS = {Kind.ID, Kind.INTEGER, Kind.REAL, Kind.FLAG}
"""Kinds for which the text "null" can only mean a missing value."""


def relation_id(relation: Any) -> int:
    """Return the id of a relation given as a URL on any host, an id, or an inline object.

    If a URL ends in a name, the segment before the name is the id. Raises: ValueError if it
    contains no id.

    >>> relation_id("https://us0.example/api/v2/accounts/157/")
    157
    >>> relation_id("https://us0.example/api/v2/routers/123/configuration_manager/")
    123
    """
    if isinstance(relation, Mapping):
        relation = relation.get("id", relation.get("resource_url"))
    if isinstance(relation, str):
        *above, last = relation.rstrip("/").rsplit("/", 2)
        is_named = len(above) == 2 and above[1].isdecimal() and _NAME.fullmatch(last)  # noqa: PLR2004
        relation = above[1] if is_named else last
    return _integer(relation)


_NAME = re.compile("[a-z][a-z_]*")
"""The last segment of a URL that names one part of a record."""


def ids_text(links: Any) -> str:
    """Return the ids of linked records as a JSON list, sorted: their order means nothing.

    Raises: ValueError for a link without an id.

    >>> ids_text([{"type": "radios", "id": "r2"}, "r1"]), ids_text({"id": 7}), ids_text([])
    ('["r1","r2"]', '["7"]', '[]')
    """
    found = set()
    for link in links if isinstance(links, list) else [links]:
        id_ = link.get("id") if isinstance(link, Mapping) else link
        if isinstance(id_, bool) or not isinstance(id_, (int, str)):
            raise ValueError("a link without an id")
        found.add(_text(str(id_)))
    return json_text(sorted(found))


def _integer(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ValueError("not a number")
    if isinstance(value, str):
        value = _number(value)
    if not math.isfinite(value) or value != int(value):
        raise ValueError(f"{value!r} is not a whole number")
    if isinstance(value, float) and abs(value) >= EXACT_LIMIT:
        raise ValueError(f"{value!r} may have lost digits")
    if not -INT64_LIMIT <= value < INT64_LIMIT:
        raise ValueError(f"{value!r} does not fit 64 bits")
    return int(value)


def _number(text: str) -> float:
    """Return the number in a text, as an integer if possible; underscores are not digits."""
    if "_" in text:
        raise ValueError(f"{text!r} is not a number")
    try:
        return int(text)
    except ValueError:
        return float(text)


def _real(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ValueError("not a number")
    number = float(_number(value) if isinstance(value, str) else value)
    if not math.isfinite(number):
        raise ValueError(f"{value!r} is not a finite number")
    return number


def _flag(value: Any) -> bool:
    spellings = {"true": True, "false": False, "1": True, "0": False}
    try:
        return spellings[str(value).lower()]
    except KeyError:
        raise ValueError(f"{value!r} is neither true nor false") from None


def _text(value: Any) -> str:
    """Return a text without NUL: a NUL breaks DuckLake's joins, and PostgreSQL rejects it."""
    text = value if isinstance(value, str) else json_text(value)
    if "\0" in text:
        raise ValueError("a text with a NUL character")
    return text


def _time(value: Any) -> str:
    """Return the instant in a uniform format; a time without a zone is UTC."""
    if not isinstance(value, str):
        raise ValueError("a time must be text")
    if _OFFSET_BEYOND_59_MINUTES.search(value):  # Arrow refuses it, Python reads it
        raise ValueError(f"{value!r} has an offset with more than 59 minutes")
    moment = datetime.fromisoformat(value)
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return moment.astimezone(UTC).isoformat()


def _epoch(value: Any, *, per_second: int) -> str:
    """Return the instant so many parts of a second after 1970, in the same format."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("an epoch time must be a number")
    if not math.isfinite(value):
        raise ValueError("an epoch time must be finite")
    return (_EPOCH + timedelta(seconds=value / per_second)).isoformat()


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _timeuuid(value: Any) -> str:
    embedded_time(_text(value))
    return _text(value)


def link_query(link: str | None) -> Mapping[str, str] | None:
    """Return the query of a link; its host is ignored, so the keys never go there.

    An empty link means that there is none, as null does.

    Raises: ValueError for a link that cannot be requested.
    """
    if not link:
        return None
    if len(link) > MAX_LINK_CHARACTERS:
        raise ValueError(f"its link to the next page has {len(link):,} characters")
    try:
        query = parse_qs(urlsplit(link).query)
    except ValueError:  # the error itself quotes the link, which may echo a key
        raise ValueError("its link to the next page is not a valid address") from None
    return {name: values[-1] for name, values in query.items()}


def json_text(value: Any) -> str:
    """Return a value as compact JSON text."""
    return msgspec.json.encode(value).decode()


_READERS: dict[Kind, Callable[[Any], Any]] = {
    Kind.ID: _integer,
    Kind.RELATION: relation_id,
    Kind.INTEGER: _integer,
    Kind.REAL: _real,
    Kind.FLAG: _flag,
    Kind.TEXT: _text,
    Kind.TIME: _time,
    Kind.EPOCH_S: partial(_epoch, per_second=1),
    Kind.EPOCH_MS: partial(_epoch, per_second=1_000),
    Kind.TIMEUUID: _timeuuid,
    Kind.IDS: ids_text,
    Kind.JSON: json_text,
}
