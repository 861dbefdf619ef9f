"""Columns of the raw tables, described by the releases that added them.

Different releases may load one lake in turn. Here a release reads the definitions of columns that
its own endpoint table lacks, and fills them like its own. Otherwise it would write the member to
`_extra`, and each release would see the other's rows as changed.

Values in the rows' `_extra` are moved to the column. For records kept as history that have no such
value, the next load writes the value into the current version. A new column is not a change of the
record, so it starts no new version.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import datetime

import pyarrow as pa

from fleetlake.decoding.arrow import EXTRA
from fleetlake.endpoints.columns import Column, Kind, Privacy
from fleetlake.endpoints.model import Endpoint
from fleetlake.lake.connection import Lake
from fleetlake.lake.current import is_current, same_key
from fleetlake.lake.evolution.member_values import forget_drift, move_values
from fleetlake.text.quoting import quoted

MEANING = "A column that another release of fleetlake has added to this lake."

_KINDS = frozenset(map(str, Kind))


def registered_columns(lake: Lake) -> list[tuple[str, Column]]:
    """Return the columns that releases have added to this lake, by endpoint, oldest first."""
    return [(name, column) for name, column, _ in added_columns(lake)]


def added_columns(lake: Lake) -> list[tuple[str, Column, datetime | None]]:
    """Return the same with the time at which each column was added; None for the first ones."""
    found = lake.rows(
        "select endpoint, member, kind, is_tracked, added_at from meta.columns "
        "order by added_at, member"
    )
    return [
        (
            name,
            Column(
                field=member,
                kind=Kind(kind),
                meaning=MEANING,
                is_tracked=is_tracked,
                privacy=Privacy.TEXT,
            ),
            added_at,
        )
        for name, member, kind, is_tracked, added_at in found
        if kind in _KINDS  # those of a newer release stay in `_extra`
    ]


def with_registered(
    endpoints: Sequence[Endpoint], registered: Sequence[tuple[str, Column]]
) -> list[Endpoint]:
    """Return the endpoints with the columns that other releases have added to this lake."""
    known = {(e.name, column.name) for e in endpoints for column in e.columns}
    columns: dict[str, list[Column]] = {}
    for name, column in registered:
        if (name, column.name) not in known:
            columns.setdefault(name, []).append(column)
    return [_widened(endpoint, columns.get(endpoint.name, ())) for endpoint in endpoints]


def _widened(endpoint: Endpoint, more: Iterable[Column]) -> Endpoint:
    """Return the endpoint with more columns; a member that already has a column keeps it."""
    columns = list(endpoint.columns)
    for column in more:
        if not any(column.name == own.name or _overlap(column, own) for own in columns):
            columns.append(column)
    if len(columns) == len(endpoint.columns):
        return endpoint
    return replace(endpoint, columns=tuple(columns))


def _overlap(one: Column, other: Column) -> bool:
    """Return whether two columns have the same member, or one within the other's."""
    shared = min(len(one.path), len(other.path))
    return one.path[:shared] == other.path[:shared]


def register_columns(
    lake: Lake, endpoints: Iterable[Endpoint], gained: Collection[tuple[str, str]]
) -> None:
    """Record the definitions of new columns, in the open transaction.

    `gained` are the columns, by endpoint and name, just added to a table with rows.
    """
    described = set(lake.rows("select endpoint, member from meta.columns"))
    new = [
        (e.name, column)
        for e in endpoints
        for column in e.columns
        if (e.name, column.name) in gained or (e.name, column.field) not in described
    ]
    if not new:
        return
    members = {
        "endpoint": [name for name, _ in new],
        "member": [column.field for _, column in new],
        "kind": [str(column.kind) for _, column in new],
        "is_tracked": [column.is_tracked for _, column in new],
        "is_gained": [(name, column.name) in gained for name, column in new],
    }
    with lake.view("described", pa.table(members)):
        if described:
            lake.execute(
                "delete from meta.columns c using described d "
                "where c.endpoint = d.endpoint and c.member = d.member"
            )
        lake.execute(
            "insert into meta.columns by name select endpoint, member, kind, is_tracked, "
            "case when is_gained then now() end as added_at from described"
        )


def fill_gained(lake: Lake, endpoint: Endpoint, column: Column) -> None:
    """Fill a column just added to a table from `_extra`, in the open transaction."""
    move_values(lake, endpoint, column)
    forget_drift(lake, endpoint.name, column)


def take_from_extra(lake: Lake, endpoint: Endpoint) -> int:
    """Move values that a release without some column left in `_extra`; return the row count.

    For records kept as history, only the current version is considered.
    """
    return take_values(lake, endpoint, is_current(endpoint))


def take_values(lake: Lake, endpoint: Endpoint, condition: str = "true") -> int:
    """Move values that fit their columns out of `_extra`, if any of the rows have some."""
    members = lake.values(
        f"select distinct unnest(json_keys({EXTRA})) from raw.{quoted(endpoint.name)} "
        f"where {condition} and {EXTRA} is not null"
    )
    late = [column for column in endpoint.columns if column.path[0] in members]
    return sum(move_values(lake, endpoint, column) for column in late)


def fill_never_held(
    lake: Lake, endpoint: Endpoint, new_columns: Sequence[Column], is_own: str
) -> int:
    """Fill columns that are new to current versions; return the number of rows.

    Only the first load after a column was added does this: later nulls come from the service.
    `is_own` is the condition on the account.
    """
    filled = 0
    for column in new_columns:
        name = quoted(column.name)
        filled += lake.number(
            f"update raw.{quoted(endpoint.name)} t set {name} = b.{name} from batch b "
            f"where t.valid_to is null and {same_key(endpoint)} and t.{name} is null "
            f"and b.{name} is not null and {is_own}"
        )
    return filled
