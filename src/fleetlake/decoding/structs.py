"""msgspec structs that pages are decoded into, built from an endpoint's columns.

The service chooses the member names, so no name becomes code: each member is stored in an
attribute named after its bytes, and renamed for decoding.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Annotated, Any

import msgspec
from msgspec.structs import astuple

from fleetlake.decoding.learned_members import ESCAPED, MISSING, LearnedMembers, Path
from fleetlake.decoding.values import EXACT_LIMIT
from fleetlake.endpoints.columns import Kind
from fleetlake.endpoints.model import Api, Endpoint

# Only the lenient reader can distinguish 9007199254740993 from 9007199254740993.0.
_Whole = Annotated[int, msgspec.Meta(gt=-EXACT_LIMIT, lt=EXACT_LIMIT)]

_WIRE_TYPES: dict[Kind, Any] = {
    Kind.ID: _Whole | None,
    Kind.RELATION: str | _Whole | None,
    Kind.INTEGER: _Whole | None,
    Kind.REAL: float | None,
    Kind.FLAG: bool | None,
    Kind.TEXT: str | None,
    Kind.TIME: str | None,
    Kind.TIMEUUID: str | None,
    Kind.IDS: msgspec.Raw,
    Kind.JSON: msgspec.Raw,
}


CONSTANT = {Api.V2: (), Api.V3: ("type",)}
"""Members that every record of a list repeats."""


MAY_BE_EMPTY = {Api.V2: (), Api.V3: ("relationships",)}
"""Members of a record that mean nothing if they are empty."""


class _Nothing(msgspec.Struct, forbid_unknown_fields=True):
    """An object without members."""


class _Meta(msgspec.Struct):
    limit: Annotated[int, msgspec.Meta(ge=1)]
    next: str | None


class _Links(msgspec.Struct):
    next: str | None = None


def envelope(api: Api, record: Any) -> type[msgspec.Struct]:
    """Return the struct of a list response: the records, and the link to the next page."""
    rest = ("meta", _Meta) if api is Api.V2 else ("links", _Links)
    return msgspec.defstruct("Envelope", [("data", list[record]), rest])


@dataclass(frozen=True)
class _Member:
    """A member of a record's struct, or of an object in it: `path` leads there from `above`."""

    path: Path
    type: Any
    default: Any
    above: Path = ()


@dataclass(frozen=True)
class _Place:
    """The member at one place of a struct. If it is an object of its own, `within` has its members.

    `path` leads there from the record.
    """

    path: Path
    within: tuple["_Place", ...] = ()


class FastDecoder:
    """Decodes pages of records that are as the struct declares them."""

    def __init__(self, api: Api, record: type[msgspec.Struct]) -> None:
        self._decoder = msgspec.json.Decoder(envelope(api, record), strict=False)
        self._places = _places_of(record)

    def page(self, body: bytes) -> Any:
        """Return the page. Raises: ValueError if it is not one of such records."""
        return self._decoder.decode(body)

    def columns(self, records: Sequence[Any]) -> dict[Path, Sequence[Any]]:
        """Return the values of each member of a page's records, by its path."""
        return dict(_columns(records, self._places))


def fast_decoder(endpoint: Endpoint, learned: LearnedMembers) -> FastDecoder | None:
    """Return the decoder for a page of records as declared, or None if no struct can express them.

    It also takes the learned members, as received.

    msgspec structs cannot name a member that JSON must escape, nor contain a member both whole and
    in part, which promotions in a lake make possible. Kinds of other services have no wire type.
    """
    if any(column.kind not in _WIRE_TYPES for column in endpoint.columns):
        return None
    paths = {column.path for column in endpoint.columns}
    is_split = any(path[:depth] in paths for path in paths for depth in range(1, len(path)))
    if is_split or any(map(ESCAPED.search, chain.from_iterable(paths))):
        return None
    members = [
        _Member(c.path, wire, msgspec.Raw(b"null") if wire is msgspec.Raw else None)
        for c in endpoint.columns
        for wire in [_WIRE_TYPES[c.kind]]
    ]
    members += [_Member(path, msgspec.Raw, MISSING) for path in learned.paths]
    return FastDecoder(endpoint.api, _nested_struct(members, endpoint.api))


def attribute_of(member: str) -> str:
    """Return the attribute in which a struct stores a member: member names may be anything.

    >>> attribute_of("5g-band")
    'm35672d62616e64'
    """
    return f"m{member.encode().hex()}"


def _places_of(struct: type[msgspec.Struct], above: Path = ()) -> tuple[_Place, ...]:
    """Return the members of a struct in the order of its tuple."""
    places = []
    for member in msgspec.structs.fields(struct):
        path = (*above, member.encode_name)
        is_object = isinstance(member.type, type) and issubclass(member.type, msgspec.Struct)
        places.append(_Place(path, _places_of(member.type, path) if is_object else ()))
    return tuple(places)


def _columns(
    records: Sequence[Any], places: tuple[_Place, ...]
) -> Iterator[tuple[Path, Sequence[Any]]]:
    """Yield each member's path and values: one call per object is quicker than one per member."""
    values = list(zip(*map(astuple, records), strict=True)) or [()] * len(places)
    for place, column in zip(places, values, strict=True):
        if place.within:
            yield from _columns(column, place.within)
        else:
            yield place.path, column


def _nested_struct(members: Sequence[_Member], api: Api) -> type[msgspec.Struct]:
    """Return a struct of members of one object.

    Unknown members are refused. Members that every record repeats are ignored.
    """
    constant = constant_at(members[0].above, api)
    fields: list[tuple[str, Any, Any]] = [(attribute_of(name), str, "") for name in constant]
    names = {attribute_of(name): name for name in constant}
    inner: dict[str, list[_Member]] = {}
    for member in members:
        name, *rest = member.path
        names[attribute_of(name)] = name
        if rest:
            below = replace(member, path=tuple(rest), above=(*member.above, name))
            inner.setdefault(name, []).append(below)
        else:
            fields.append((attribute_of(name), member.type, member.default))
    for name in MAY_BE_EMPTY[api] if not members[0].above else ():
        if attribute_of(name) not in names:
            names[attribute_of(name)] = name
            fields.append((attribute_of(name), _Nothing | None, None))
    for name, within in inner.items():
        struct = _nested_struct(within, api)
        fields.append((attribute_of(name), struct, msgspec.field(default_factory=struct)))
    return msgspec.defstruct("Record", fields, rename=names, forbid_unknown_fields=True, gc=False)


def constant_at(path: tuple[str, ...], api: Api) -> Sequence[str]:
    """Return the members of the object at `path` that are the same in every record."""
    if api is Api.V3 and path[:1] == ("relationships",) and path[2:] == ("data",):
        return CONSTANT[api]  # a to-one link repeats the kind of its target
    return CONSTANT[api] if not path else ()
