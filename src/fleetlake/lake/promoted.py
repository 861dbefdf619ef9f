"""Members of `_extra` that became columns of this lake, without waiting for a release.

A promoted member is a column like any other from then on: read, compared and kept in its type.
Which ones there are is a table of the lake, so that every process that loads knows of them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from fleetlake.columns import Column, Kind
from fleetlake.endpoint import Endpoint
from fleetlake.errors import UsageError
from fleetlake.lake.locks import commit_lock, stream_lock
from fleetlake.lake.registry import with_registered
from fleetlake.normalise import EXTRA, array_of
from fleetlake.records import members_left, take_member
from fleetlake.values import json_text, read_value

if TYPE_CHECKING:
    from fleetlake.lake.catalog import Lake

TEXTS_AT_ONCE = 50_000

MEANING = "A member that the service added; promoted to a column in this lake."


def _is_time(value: Any) -> bool:
    try:
        return isinstance(value, str) and read_value(Kind.TIME, value) is not None
    except ValueError:
        return False


_LIKELY: dict[Kind, Callable[[Any], bool]] = {
    Kind.FLAG: lambda value: isinstance(value, bool),
    Kind.INTEGER: lambda value: isinstance(value, int) and not isinstance(value, bool),
    Kind.REAL: lambda value: isinstance(value, (int, float)) and not isinstance(value, bool),
    Kind.TIME: _is_time,
    Kind.TEXT: lambda value: isinstance(value, str),
}
"""Kinds to try on a member's values, the narrowest first; JSON takes whatever is left."""


@dataclass(frozen=True, kw_only=True)
class Member:
    """A member without a column of the endpoint table's: where, since when, an example of it.

    `kind` is there once it is a column of this lake.
    """

    endpoint: str
    member: str
    first_seen_at: datetime
    example: str
    kind: Kind | None


def with_promoted(lake: "Lake", endpoints: Sequence[Endpoint]) -> list[Endpoint]:
    """Return the endpoints with the columns that this lake has beyond the endpoint table's."""
    found = lake.rows("select endpoint, member, kind from meta.promoted order by promoted_at")
    columns: dict[str, list[Column]] = {}
    for name, member, kind in found:
        columns.setdefault(name, []).append(_column(member, kind))
    wider = [_widened(endpoint, columns.get(endpoint.name, [])) for endpoint in endpoints]
    return with_registered(lake, wider)


def _widened(endpoint: Endpoint, columns: Sequence[Column]) -> Endpoint:
    """Return the endpoint with those of the columns that it has not got by now."""
    own = {column.name for column in endpoint.columns}
    more = [column for column in columns if column.name not in own]
    return replace(endpoint, columns=(*endpoint.columns, *more)) if more else endpoint


def members(lake: "Lake", endpoint: str | None = None) -> list[Member]:
    """Return the members that came without a column, of one endpoint or of all."""
    found = lake.rows(
        "select d.endpoint, d.member, min(d.first_seen_at), any_value(d.example), "
        "any_value(p.kind) from meta.schema_drift d left join meta.promoted p "
        "on p.endpoint = d.endpoint and p.member = d.member "
        "where ? is null or d.endpoint = ? group by all order by all",
        [endpoint, endpoint],
    )
    return [
        Member(
            endpoint=name,
            member=member,
            first_seen_at=seen,
            example=example,
            kind=kind and Kind(kind),
        )
        for name, member, seen, example, kind in found
    ]


def promote(
    lake: "Lake", endpoint: Endpoint, member: str, kind: Kind | None = None
) -> tuple[Column, int]:
    """Make a column of a member, take its values out of `_extra`; return it and the rows filled.

    `member` may lead into an object by a dot. Without `kind` it is the narrowest that takes
    every value there is; a value that the kind does not take stays where it is. Raises:
    UsageError for a member that never came; StreamBusy while the endpoint is being loaded.
    """
    known = {found.member: found for found in members(lake, endpoint.name)}
    if member.split(".", maxsplit=1)[0] not in known:
        raise UsageError(
            f"{endpoint.name} never had a member {member!r} without a column.",
            remedy=f"It had: {', '.join(known) or 'none'}.",
        )
    with stream_lock(lake.path, endpoint.name):
        [endpoint] = with_promoted(lake, [endpoint])
        column = _column(member, kind or _likely_kind(lake, endpoint, member))
        if column.name in {own.name for own in endpoint.columns}:
            raise UsageError(f"{endpoint.name} has a column {column.name} already.")
        with commit_lock(lake.path):
            lake.execute("begin")
            try:
                lake.execute(
                    "insert into meta.promoted (endpoint, member, kind, promoted_at) "
                    "values (?, ?, ?, now())",
                    [endpoint.name, member, column.kind],
                )
                filled = _fill(lake, endpoint, column)
                lake.execute("commit")
            except BaseException:
                lake.roll_back()
                raise
    return column, filled


def _column(member: str, kind: str) -> Column:
    return Column(field=member, kind=Kind(kind), meaning=MEANING)


def _likely_kind(lake: "Lake", endpoint: Endpoint, member: str) -> Kind:
    """Return the narrowest kind that takes every value the lake holds of a member."""
    path = _column(member, Kind.JSON).path
    likely, is_known = list(_LIKELY), False
    for texts in _texts_with(lake, endpoint, member):
        found = [take_member(msgspec.json.decode(text), path) for text in texts]
        values = [value for value in found if value is not None]
        likely = [kind for kind in likely if all(_LIKELY[kind](value) for value in values)]
        is_known |= bool(values)
    return likely[0] if likely and is_known else Kind.JSON


def _texts_with(lake: "Lake", endpoint: Endpoint, member: str) -> Sequence[list[str]]:
    """Return the distinct `_extra` texts that hold a member, in portions."""
    found = lake.rows(
        f"select distinct {EXTRA}::varchar from raw.{endpoint.name} where json_exists({EXTRA}, ?)",
        [_json_path(member)],
    )
    texts = [text for (text,) in found]
    return [texts[i : i + TEXTS_AT_ONCE] for i in range(0, len(texts), TEXTS_AT_ONCE)]


def _fill(lake: "Lake", endpoint: Endpoint, column: Column) -> int:
    """Add the column and move its values there, in the open transaction; return the rows."""
    lake.execute(f'alter table raw.{endpoint.name} add column "{column.name}" {column.sql_type}')
    return move_values(lake, replace(endpoint, columns=(*endpoint.columns, column)), column)


def move_values(lake: "Lake", endpoint: Endpoint, column: Column) -> int:
    """Move a column's values there out of `_extra`, in the open transaction; return the rows."""
    filled = 0
    for texts in _texts_with(lake, endpoint, column.field):
        moved = _moved(endpoint, column, texts)
        if not moved.num_rows:
            continue
        with lake.view("moved", moved):
            [(rows,)] = lake.rows(
                f'update raw.{endpoint.name} r set "{column.name}" = m.value, {EXTRA} = m.extra '
                f"from moved m where r.{EXTRA}::varchar = m.text"
            )
        filled += rows
    return filled


def _moved(endpoint: Endpoint, column: Column, texts: Sequence[str]) -> pa.Table:
    """Return by `_extra` text the column's value and what is left of the text."""
    rows: list[tuple[str, Any, str | None]] = []
    for text in texts:
        extra = msgspec.json.decode(text)
        try:
            value = read_value(column.kind, take_member(extra, column.path))
        except ValueError:
            continue  # as a load keeps it: in `_extra`, for the column cannot hold it
        left = members_left(endpoint, extra)
        rows.append((text, value, json_text(left) if left else None))
    moved, values, extras = (list(part) for part in zip(*rows, strict=True)) if rows else ([],) * 3
    return pa.table(
        {"text": pa.array(moved, pa.string()), "value": array_of(column, values)}
        | {"extra": pa.array(extras, pa.string())}
    )


def _json_path(member: str) -> str:
    return "$" + "".join(f'."{part}"' for part in member.split("."))
