"""msgspec structs that pages are decoded into, built from an endpoint's columns.

The service chooses the member names, so no name becomes code: each member is stored in an
attribute named after its bytes, and renamed for decoding.

A service adds members with its next release. The first page with one is read by the lenient
reader, which is slow; the fast reader then accepts that member, as the text received. So a new
member costs one slow page a load.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec.structs import astuple

from fleetlake.decoding.bounds import MAX_MEMBERS
from fleetlake.decoding.values import EXACT_LIMIT
from fleetlake.endpoints.columns import Kind
from fleetlake.endpoints.model import Api, Endpoint

MAX_LEARNED = 32
"""Maximum members per list; with more, the records differ so much that learning never ends."""

MAX_NAME_CHARACTERS = 200

MISSING = msgspec.Raw(b"")
"""Value of a member that a record lacks; `null` is a value."""

ESCAPED = re.compile(r'[\x00-\x1f"\\]')
"""Characters that JSON must escape."""

_LARGE_EXPONENT = re.compile(r"[eE]\+?\d{3}")
_TOO_LARGE = re.compile(r"[\[:,\s]-?\d+(?:\.\d+)?[eE]\+?\d{3}")
_TOO_MANY_DIGITS = re.compile(r"\d{309}")
"""Numbers that may be too large for a double: the lenient reader keeps them as text."""

_LONG = 308
"""Only a longer text can have so many digits, or too many members."""

Path = tuple[str, ...]
_Tree = dict[str, "int | _Tree"]
"""The learned members as they nest, each with its position."""


@dataclass(frozen=True)
class LearnedMembers:
    """Paths of members without a column, in the order in which they were first seen."""

    paths: tuple[Path, ...] = ()

    def plus(self, endpoint: Endpoint, left: Mapping[str, Any]) -> "LearnedMembers":
        """Return these and the members that a record had left, if they are not too many.

        A value that did not fit its column is also left over. It is not learned, because the next
        record may have a value that fits.
        """
        columns, parents = _declared(endpoint)
        found = [path for path in _paths(left, parents) if path not in self.paths]
        new = [p for p in found if p not in columns and p not in parents and _is_plain(p)]
        if not new or len(self.paths) + len(new) > MAX_LEARNED:
            return self
        return LearnedMembers((*self.paths, *new))

    def objects(self, columns: Sequence[Sequence[str]]) -> dict[int, str]:
        """Return the members of each row as a JSON object, by row; a row without any is left out.

        `columns` holds the JSON texts of each member; a record without the member has "".
        """
        tree = self._tree()
        template = _template(tree)
        rows: dict[int, str] = {}
        for row, texts in enumerate(zip(*columns, strict=True)):
            if "" not in texts:
                rows[row] = template % texts
            elif text := _rendered(tree, texts):
                rows[row] = text
        return rows

    def _tree(self) -> _Tree:
        tree: _Tree = {}
        for position, path in enumerate(self.paths):
            below = tree
            for name in path[:-1]:
                inner = below.setdefault(name, {})
                assert isinstance(inner, dict), "a learned member has no learned members inside"
                below = inner
            below[path[-1]] = position
        return tree


def is_beyond_fast_reader(texts: Iterable[str]) -> bool:
    """Return whether the lenient reader must judge these JSON texts of learned members."""
    different = {*texts}  # a member often has few values
    long = [text for text in different if len(text) > _LONG]
    if any(t.count(":") > MAX_MEMBERS - MAX_LEARNED or _TOO_MANY_DIGITS.search(t) for t in long):
        return True
    joined = "\n".join(["", *different])  # one search: a search per text costs a third of the page
    return bool(_LARGE_EXPONENT.search(joined) and _TOO_LARGE.search(joined))


@cache
def _declared(endpoint: Endpoint) -> tuple[frozenset[Path], frozenset[Path]]:
    """Return the paths of an endpoint's columns, and of the objects that contain them."""
    columns = frozenset(column.path for column in endpoint.columns)
    return columns, frozenset(p[:depth] for p in columns for depth in range(1, len(p)))


def _paths(left: Mapping[str, Any], parents: frozenset[Path], above: Path = ()) -> list[Path]:
    """Return the paths of what a record had left; a parent of columns is not left as a whole."""
    found: list[Path] = []
    for name, value in left.items():
        path = (*above, name)
        is_parent = path in parents and isinstance(value, dict)
        found += _paths(value, parents, path) if is_parent else [path]
    return found


def _is_plain(path: Path) -> bool:
    name = path[-1]
    return len(name) <= MAX_NAME_CHARACTERS and not ESCAPED.search(name)


def _template(tree: _Tree) -> str:
    """Return the format of an object with every member.

    >>> _template({"a": 0, "b": {"50%": 1}}) % ("1", "2")
    '{"a":1,"b":{"50%":2}}'
    """
    members = [
        f'"{name.replace("%", "%%")}":{"%s" if isinstance(inner, int) else _template(inner)}'
        for name, inner in tree.items()
    ]
    return f"{{{','.join(members)}}}"


def _rendered(tree: _Tree, texts: Sequence[str]) -> str:
    """Return the object of the members that a record has, or "" if it has none."""
    members = [
        f'"{name}":{text}'
        for name, inner in tree.items()
        if (text := texts[inner] if isinstance(inner, int) else _rendered(inner, texts))
    ]
    return f"{{{','.join(members)}}}" if members else ""


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


class FastDecoder(NamedTuple):
    """Decodes pages of records that are as a struct declares them."""

    pages: msgspec.json.Decoder[Any]
    places: tuple[_Place, ...]

    def columns(self, records: Sequence[Any]) -> dict[Path, Sequence[Any]]:
        """Return the values of each member of a page's records, by its path."""
        return dict(_columns(records, self.places))


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
    record = _nested_struct(members, endpoint.api)
    decoder = msgspec.json.Decoder(envelope(endpoint.api, record), strict=False)
    return FastDecoder(decoder, _places_of(record))


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
    named = {member.path[0] for member in members}
    constant = [name for name in constant_at(members[0].above, api) if name not in named]
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
