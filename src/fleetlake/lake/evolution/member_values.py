"""Moving a member's values between `_extra` and a column, in either direction.

The texts of `_extra` are changed in Python, not with SQL's JSON functions, so that a member's
name never becomes a path or a statement.

A member may have any name that JSON allows, even an empty one or one with a dot. The path to a
member is written with dots between its parts, and an ambiguous part is written as a JSON string:
`a.b` is the member b of the object a, and `"a.b"` is one member.
"""

import json
import re
import unicodedata
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import msgspec
import pyarrow as pa

from fleetlake.decoding.arrow import EXTRA, array_of
from fleetlake.decoding.records import members_left, take_member
from fleetlake.decoding.values import EXACT_LIMIT, INT64_LIMIT, json_text, read_value
from fleetlake.endpoints.columns import RESERVED, Column, Kind
from fleetlake.endpoints.model import Endpoint
from fleetlake.lake.connection import Lake
from fleetlake.text.quoting import quoted

TEXTS_AT_ONCE = 50_000
WHOLE_NUMBERS = {Kind.ID, Kind.RELATION, Kind.INTEGER}
OLD = "_of_the_old_type"
"""Name of a column while another type replaces it; files of that moment have it too."""

_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?(Z|\+00:00)")
"""Times that survive a round trip; `20260615` may be a date, or a part number."""


def _is_time(value: object) -> bool:
    try:
        is_spelled_out = isinstance(value, str) and _INSTANT.fullmatch(value) is not None
        return is_spelled_out and read_value(Kind.TIME, value) is not None
    except ValueError:
        return False


def _is_text(value: object) -> bool:
    return isinstance(value, str) and "\0" not in value


def _is_integer(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int):
        return False
    return -INT64_LIMIT <= value < INT64_LIMIT


def _is_real(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    try:
        return float(value) == value
    except OverflowError:
        return False


_LIKELY: dict[Kind, Callable[[Any], bool]] = {
    Kind.FLAG: lambda value: isinstance(value, bool),
    Kind.INTEGER: _is_integer,
    Kind.REAL: _is_real,
    Kind.TIME: _is_time,
    Kind.TEXT: _is_text,
}
"""Kinds to try on a member's values, the narrowest first; JSON accepts any value."""


def likely_kind(lake: Lake, endpoint: Endpoint, path: tuple[str, ...]) -> Kind:
    """Return the narrowest kind that stores every known value of a member unchanged."""
    likely, is_known = list(_LIKELY), False
    for texts in _texts_with(lake, endpoint, path):
        found = [take_member(msgspec.json.decode(text), path) for text in texts]
        values = [value for value in found if value is not None]
        likely = [kind for kind in likely if all(_LIKELY[kind](value) for value in values)]
        is_known |= bool(values)
    return likely[0] if likely and is_known else Kind.JSON


def fill_column(lake: Lake, endpoint: Endpoint, column: Column) -> int:
    """Add the column and move its values into it, in the open transaction; return the row count."""
    table, name = f"raw.{quoted(endpoint.name)}", quoted(column.name)
    lake.execute(f"alter table {table} add column {name} {column.sql_type}")
    return move_values(lake, replace(endpoint, columns=(*endpoint.columns, column)), column)


def move_values(lake: Lake, endpoint: Endpoint, column: Column) -> int:
    """Move a column's values out of `_extra`, in the open transaction; return the row count."""
    table, name = f"raw.{quoted(endpoint.name)}", quoted(column.name)
    filled = 0
    for texts in _texts_with(lake, endpoint, column.path):
        moved = _taken_out(endpoint, column, texts)
        if not moved.num_rows:
            continue
        with lake.view("moved", moved):
            filled += lake.number(
                f"update {table} r set {name} = m.value, {EXTRA} = m.extra "
                f"from moved m where r.{EXTRA}::varchar = m.text"
            )
    return filled


def empty_column(lake: Lake, endpoint: Endpoint, column: Column) -> int:
    """Move a column's values back and drop it, in the open transaction; return the row count."""
    table, name = f"raw.{quoted(endpoint.name)}", quoted(column.name)
    as_value = f"r.{name}::varchar" if column.sql_type == "JSON" else f"r.{name}"
    pairs = lake.execute(
        f"select distinct r.{EXTRA}::varchar as text, {as_value} as value from {table} r "
        f"where r.{name} is not null"
    ).to_arrow_table()
    returned = 0
    for start in range(0, pairs.num_rows, TEXTS_AT_ONCE):
        with lake.view("moved", _put_back(column, pairs.slice(start, TEXTS_AT_ONCE))):
            returned += lake.number(
                f"update {table} r set {EXTRA} = m.extra, {name} = null from moved m "
                f"where r.{EXTRA}::varchar is not distinct from m.text and {as_value} = m.value"
            )
    lake.execute(f"alter table {table} drop column {name}")
    return returned


def retype_column(lake: Lake, endpoint: Endpoint, old: Column, new: Column) -> int:
    """Store a column in another type, in the open transaction; return the rows out of `_extra`.

    A value that the new type cannot hold unchanged moves to `_extra`. DuckLake 1.5.5 can
    change a type itself, but filters then miss rows written before (observed 2026-11-25).
    """
    table, name = f"raw.{quoted(endpoint.name)}", quoted(new.name)
    # Files keep the names that columns had when they were written, so the new one has its own.
    lake.execute(f"alter table {table} rename column {quoted(old.name)} to {OLD}")
    lake.execute(f"alter table {table} add column {name} {new.sql_type}")
    lake.execute(
        f"update {table} set {name} = {_fitting(OLD, old.kind, new)} where {OLD} is not null"
    )
    moved = move_values(lake, endpoint, new)
    if lake.rows(f"select 1 from {table} where {OLD} is not null and {name} is null limit 1"):
        lake.execute(f"update {table} set {OLD} = null where {name} is not null")
        empty_column(lake, endpoint, replace(old, stored_as=OLD))  # it drops the column, too
    else:
        lake.execute(f"alter table {table} drop column {OLD}")
    if not any(map(bool, _texts_with(lake, endpoint, new.path))):
        forget_drift(lake, endpoint.name, new)
    return moved


def _fitting(name: str, old: Kind, new: Column) -> str:
    """Return the SQL of a value in a new type, null where the type cannot hold it unchanged."""
    cast = f"try_cast({name} as {new.sql_type})"
    if new.kind in WHOLE_NUMBERS:  # a cast would round 1.5
        return f"case when try_cast({name} as double) = {cast} then {cast} end"
    if old in WHOLE_NUMBERS and new.kind is Kind.REAL:  # a double has 53 bits
        return f"case when abs({name}) < {EXACT_LIMIT} then {cast} end"
    return cast


def forget_drift(lake: Lake, endpoint: str, column: Column) -> None:
    """Delete the note that a member has no column, in the open transaction."""
    lake.execute(
        "delete from meta.schema_drift where endpoint = ? and member = ?",
        [endpoint, format_path(column.path)],
    )


def _texts_with(lake: Lake, endpoint: Endpoint, path: tuple[str, ...]) -> Iterator[Sequence[str]]:
    """Yield the distinct `_extra` texts that contain a member, in chunks."""
    texts = lake.values(
        f"select distinct {EXTRA}::varchar from raw.{quoted(endpoint.name)} "
        f"where contains({EXTRA}::varchar, ?)",
        [json_text(path[0])],
    )
    for start in range(0, len(texts), TEXTS_AT_ONCE):
        portion = texts[start : start + TEXTS_AT_ONCE]
        yield [text for text in portion if _holds(msgspec.json.decode(text), path)]


def _holds(extra: Any, path: tuple[str, ...]) -> bool:
    for part in path:
        if not isinstance(extra, dict) or part not in extra:
            return False
        extra = extra[part]
    return True


def _taken_out(endpoint: Endpoint, column: Column, texts: Sequence[str]) -> pa.Table:
    """Return, for each `_extra` text, the column's value and the rest of the text."""
    rows: list[tuple[str, Any, str | None]] = []
    for text in texts:
        extra = msgspec.json.decode(text)
        try:
            value = read_value(column.kind, take_member(extra, column.path))
        except ValueError:
            continue  # the column cannot hold it, so it stays in `_extra`, as in a load
        left = members_left(endpoint, extra)
        rows.append((text, value, json_text(left) if left else None))
    moved, values, extras = (list(part) for part in zip(*rows, strict=True)) if rows else ([],) * 3
    return pa.table(
        {"text": pa.array(moved, pa.string()), "value": array_of(column, values)}
        | {"extra": pa.array(extras, pa.string())}
    )


def _put_back(column: Column, pairs: pa.Table) -> pa.Table:
    """Return, for each pair of `_extra` text and value, the text with the value put back."""
    extras = [
        json_text(_with_value(text, column, value))
        for text, value in zip(*(part.to_pylist() for part in pairs.columns), strict=True)
    ]
    return pairs.append_column("extra", pa.array(extras, pa.string()))


def _with_value(text: str | None, column: Column, value: Any) -> dict[str, Any]:
    """Return the content of `_extra` with the value at the column's path.

    If the record already has another value there, which the column could not hold, that value stays
    and this one is stored beside it under the column's name.
    """
    extra: dict[str, Any] = msgspec.json.decode(text) if text else {}
    inner: Any = extra
    for parent in column.path[:-1]:
        inner = inner.setdefault(parent, {}) if isinstance(inner, dict) else None
    name = column.path[-1]
    if not isinstance(inner, dict) or name in inner:
        inner, name = extra, column.name
        while name in extra:
            name += "_"
    inner[name] = _as_sent(column.kind, value)
    return extra


def _as_sent(kind: Kind, value: Any) -> Any:
    if kind in {Kind.IDS, Kind.JSON}:
        return msgspec.json.decode(value)
    return value.isoformat() if isinstance(value, datetime) else value


LONGEST_NAME = 63
"""PostgreSQL, an export target, would cut longer column names to this length."""

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
