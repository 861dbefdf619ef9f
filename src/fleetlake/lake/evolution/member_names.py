"""Names of the service's members: written for people, and as columns. Pure.

A member may have any name that JSON allows, even an empty one or one with a dot. The path to a
member is written with dots between its parts, and an ambiguous part is written as a JSON string:
`a.b` is the member b of the object a, and `"a.b"` is one member.
"""

import json
import re
import unicodedata
from collections.abc import Collection, Sequence

LONGEST_NAME = 63
"""PostgreSQL, an export target, would cut longer column names to this length."""

RESERVED = frozenset(
    {
        # added to each record by the lake (names that start with an underscore are reserved too)
        *("account_profile", "valid_from", "valid_to"),
        # added to the rows of a table by DuckLake and the exports
        *("rowid", "snapshot_id", "change_type", "is_arrival", "filename"),
        *("file_index", "file_row_number"),
    }
)
"""Column names that a member cannot have."""

_MISREAD = re.compile(r'[."\\]')
_PART = re.compile(r'("(?:[^"\\]|\\.)*"|[^."\\]+)(\.|\Z)', re.DOTALL)
_NOT_IN_A_NAME = re.compile(r"[^a-z0-9_]+")


def format_path(path: Sequence[str]) -> str:
    r"""Return the path to a member as people read and type it; each path has its own text.

    >>> print(format_path(["tier", "level"]), format_path(["tier.level"]), format_path([""]))
    tier.level "tier.level" ""
    """
    return ".".join(map(_format_part, path))


def _format_part(part: str) -> str:
    is_plain = part and part.isprintable() and not _MISREAD.search(part)
    return part if is_plain else json.dumps(part)


def parse_path(text: str) -> tuple[str, ...]:
    """Return the path for a text. Raises: ValueError if it is not a path.

    >>> parse_path('tier."a.b"')
    ('tier', 'a.b')
    """
    parts, at, more = [], 0, "."
    while more:
        found = _PART.match(text, at)
        if found is None:
            raise ValueError(f"{text!r} is not a path to a member")
        part, more = found.groups()
        parts.append(json.loads(part) if part.startswith('"') else part)
        at = found.end()
    return tuple(parts)


def column_name(path: Sequence[str], *, is_relation: bool, taken: Collection[str]) -> str:
    """Return the column name of a promoted member: lower-case letters, digits, underscores.

    Other characters become underscores, and accents are dropped. A name that is reserved or does
    not start with a letter gets the prefix `member_`; a name that is taken gets a number at the
    end. The wrapping of JSON:API is not part of a name.

    >>> column_name(["5g-Band"], is_relation=False, taken=["id"])
    'member_5g_band'
    >>> column_name(["tier", "level"], is_relation=False, taken=["tier_level"])
    'tier_level_2'
    """
    inner = path[1:] if path[0] == "attributes" and len(path) > 1 else path
    if path[0] == "relationships" and len(path) > 1:
        inner, is_relation = [path[1]], True
    name = _safe("_".join(inner) + ("_id" if is_relation else ""))
    held = {column.lower() for column in taken}
    candidate, number = name[:LONGEST_NAME], 2
    while candidate in held:
        suffix = f"_{number}"
        candidate, number = name[: LONGEST_NAME - len(suffix)] + suffix, number + 1
    return candidate


def _safe(name: str) -> str:
    plain = unicodedata.normalize("NFKD", name)
    plain = "".join(letter for letter in plain if not unicodedata.combining(letter))
    plain = _NOT_IN_A_NAME.sub("_", plain.lower())
    if plain[:1].isalpha() and plain not in RESERVED:
        return plain
    return f"member_{plain.strip('_')}".rstrip("_")
