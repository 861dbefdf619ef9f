"""Members without a column that a list is known to send: the fast reader keeps them too.

A service adds members with its next release. The first page with one is read by the lenient
reader, which is slow; the fast reader then accepts that member, as the text received. So a new
member costs one slow page a load.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import msgspec

from fleetlake.decoding.bounds import MAX_MEMBERS
from fleetlake.endpoints.model import Endpoint

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
