"""What the fields of an undescribed list hold, judged by some of its records. Pure.

Few records prove little: a kind is what fits everything seen, and null in all of them is no kind.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from fleetlake.decoding.timeuuid import embedded_ticks
from fleetlake.decoding.values import read_value, relation_id
from fleetlake.endpoints.columns import Kind
from fleetlake.endpoints.model import Api

MAX_FIELDS = 300
MAX_NESTED = 20
"""Maximum members of an object that become columns of their own."""

MAX_ID_DIGITS = 18
"""Longer numbers, such as those of SIM cards, do not fit a column of whole numbers."""

_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d")
_ADDRESS = re.compile(r"https?://", re.IGNORECASE)
_PLAIN_ID = re.compile(rf"0|[1-9][0-9]{{0,{MAX_ID_DIGITS - 1}}}", re.ASCII)
_DECIMAL = re.compile(r"(-?)[0-9]+(?:\.[0-9]+)?", re.ASCII)

_RELATION = "address of a record"
_DIGITS, _WHOLE = "digits as text", "whole number"
_IDS, _NO_IDS = "list of texts or numbers", "empty list"
_NESTED = {"object", "list", _IDS, _NO_IDS}
_ANY = {"flag", "time", "time UUID", "text", "address", "number", _RELATION, _DIGITS, _WHOLE}

_RULES: tuple[tuple[str, Kind, set[str], set[str]], ...] = (
    (r"(.*\.)?resource_url", Kind.TEXT, {_RELATION}, set()),  # by convention, its own address
    (r"id", Kind.ID, {_DIGITS, _WHOLE}, set()),
    (r".*_id", Kind.ID, {_WHOLE}, set()),
    (r".*_ids", Kind.IDS, {_IDS}, {_NO_IDS}),
    (r".*", Kind.FLAG, {"flag"}, set()),
    (r".*", Kind.INTEGER, {_WHOLE}, set()),
    (r".*", Kind.TIME, {"time"}, set()),
    (r".*", Kind.TIMEUUID, {"time UUID"}, set()),
    (r".*", Kind.RELATION, {_RELATION}, {_DIGITS, _WHOLE}),
    # Digits and decimal numbers in texts may be codes and versions, unless numbers are among them.
    (r".*", Kind.REAL, {_WHOLE, "number", "negative number as text"}, {_DIGITS, "decimal as text"}),
    (r".*", Kind.JSON, _NESTED, _ANY),
)
"""By name: a kind, looks of which it needs one, and others that it may have. Otherwise it is text.

A text of digits alone is no id, except in the field `id`: a later one may have letters.
"""


@dataclass(frozen=True, kw_only=True)
class Field:
    """One field: its name with dots, its kind (None if unknown), and its values, null where unset.

    `seen` counts what the values look like.
    """

    name: str
    kind: Kind | None
    seen: Mapping[str, int] = field(default_factory=dict)
    values: Sequence[Any] = ()

    @property
    def column(self) -> str:
        """The name of its column."""
        joined = self.name.replace(".", "_")
        return f"{joined}_id" if self.kind is Kind.RELATION else joined

    @property
    def is_unique(self) -> bool:
        """True if each record has a value, and no two have the same."""
        return None not in self.values and len({*map(str, self.values)}) == len(self.values)

    @property
    def in_words(self) -> str:
        """What was seen, without the values themselves: they may be private.

        >>> Field(name="a", kind=Kind.REAL, seen={"number": 2, "null": 1}).in_words
        '2 x number, 1 x null'
        """
        return ", ".join(f"{count} x {look}" for look, count in self.seen.items())


def observed_fields(
    records: Sequence[Any], api: Api = Api.V2, *, whole: Collection[str] = ()
) -> list[Field]:
    """Return the fields of records, in the order in which they appear.

    Of JSON:API records these are the attributes. An object becomes one field per member if most
    records have most of its members; otherwise, and if it is in `whole`, it is one field.

    >>> [f"{f.name} {f.kind}" for f in observed_fields([{"id": "7", "at": "2026-01-01T00:00:00Z"}])]
    ['id id', 'at time']
    """
    objects = [record for record in records if isinstance(record, dict)]
    if api is Api.V3:
        objects = [_object(record.get("attributes")) for record in objects]
    found = list[Field]()
    for name in dict.fromkeys(name for record in objects for name in record):
        values = [record.get(name) for record in objects]
        members = [] if name in whole else _fixed_members(name, values)
        for member in members:
            below = [_object(value).get(member) for value in values]
            found.append(_field(f"{name}.{member}", below))
        if not members:
            found.append(_field(name, values))
    return found[:MAX_FIELDS]


def relationships(records: Sequence[Any]) -> Iterator[tuple[str, bool | None]]:
    """Yield each relationship of JSON:API records, and whether it is to-many; None if unknown."""
    objects = [_object(_object(record).get("relationships")) for record in records]
    for name in dict.fromkeys(name for one in objects for name in one):
        links = [_object(one.get(name)).get("data") for one in objects]
        is_many = any(isinstance(link, list) for link in links)
        yield name, is_many if any(link is not None for link in links) else None


def value_at(record: Any, name: str) -> Any:
    """Return the value of a field in a record, or None."""
    for member in name.split("."):
        record = _object(record).get(member)
    return record


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _fixed_members(name: str, values: Sequence[Any]) -> list[str]:
    """Return the members of a field whose values are objects with a fixed form."""
    objects = [value for value in values if value is not None]
    if "." in name or not all(isinstance(value, dict) for value in objects):
        return []
    if any(_look(value) == _RELATION for value in objects):  # it was expanded
        return []
    counts = Counter(member for value in objects for member in value)
    usual = [member for member, count in counts.items() if count * 2 >= len(objects)]
    is_fixed = len(usual) * 2 >= len(counts) and len(counts) <= MAX_NESTED
    return [*counts] if is_fixed else []


def _field(name: str, values: Sequence[Any]) -> Field:
    seen = Counter(map(_look, values))
    looks = frozenset(seen) - {"null"}
    return Field(name=name, kind=_kind(name, looks), seen=seen, values=values)


def _kind(name: str, looks: frozenset[str]) -> Kind | None:
    """Return the first kind that fits all looks of a field."""
    for pattern, kind, needed, others in _RULES:
        if looks & needed and looks <= needed | others and re.fullmatch(pattern, name):
            return kind
    return Kind.TEXT if looks else None


def _look(value: Any) -> str:
    """Return what a value looks like, in words."""
    if isinstance(value, str):
        return _text_look(value)
    if isinstance(value, list) and value:
        return _IDS if all(isinstance(one, (str, int)) for one in value) else "list"
    if isinstance(value, dict) and {"id", "resource_url"} <= value.keys():
        return _RELATION
    return _LOOKS[type(value)]


_LOOKS = {
    type(None): "null",
    bool: "flag",
    int: _WHOLE,
    float: "number",
    dict: "object",
    list: _NO_IDS,
}


def _text_look(text: str) -> str:
    found = "text"
    if number := _DECIMAL.fullmatch(text):
        found = "negative number as text" if number[1] else "decimal as text"
        return _DIGITS if _PLAIN_ID.fullmatch(text) else found
    with suppress(ValueError, OverflowError):
        if _ADDRESS.match(text):
            found = "address"
            relation_id(text)
            found = _RELATION
        elif _TIME.match(text):
            read_value(Kind.TIME, text)
            found = "time"
        else:
            embedded_ticks(text)
            found = "time UUID"
    return found
