"""Members of `_extra` that became columns of this lake, without waiting for a release.

A promoted member is then an ordinary column: it is read, compared and stored in its type. The
promotions are a table of the lake, so every process that loads knows them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from fleetlake.endpoints.columns import Column, Kind, Privacy
from fleetlake.endpoints.model import Endpoint
from fleetlake.lake.connection import Lake
from fleetlake.lake.evolution.member_values import parse_path
from fleetlake.lake.evolution.registry import registered_columns, with_registered

MEANING = "A member that the service added; promoted to a column in this lake."


@dataclass(frozen=True, kw_only=True)
class Member:
    """A member without a column in the endpoint table, when it was first seen, and an example.

    `member` is its path as `member_names` writes it. `kind` and `column` are set once it is a
    column of this lake.
    """

    endpoint: str
    member: str
    first_seen_at: datetime
    example: str
    kind: Kind | None
    column: str | None


@dataclass(frozen=True, kw_only=True)
class Promotion:
    """A row of `meta.promoted`."""

    endpoint: str
    member: str
    kind: Kind
    promoted_at: datetime
    column_name: str

    @property
    def column(self) -> Column:
        """The member as a column."""
        return promoted_column(self.path, self.kind, self.column_name)

    @property
    def path(self) -> tuple[str, ...]:
        """The members that lead to the value."""
        return parse_path(self.member)


def promoted_column(path: tuple[str, ...], kind: Kind, stored_as: str) -> Column:
    """Return the column of a promoted member."""
    return Column(
        field=".".join(path),
        kind=kind,
        meaning=MEANING,
        privacy=Privacy.TEXT,
        members=path,
        stored_as=stored_as,
    )


def promotions(lake: Lake, endpoint: str | None = None) -> list[Promotion]:
    """Return the promotions of one endpoint or of all, oldest first."""
    found = lake.named_rows(
        "select endpoint, member, kind, promoted_at, column_name from meta.promoted "
        "order by promoted_at"
    )
    every = [Promotion(**row | {"kind": Kind(row["kind"])}) for row in found]
    return [one for one in every if endpoint in (None, one.endpoint)]


RetypedKinds = Mapping[tuple[str, str], Kind]
"""The kinds in which a lake stores columns, by endpoint and member."""


def with_promoted(lake: Lake, endpoints: Sequence[Endpoint]) -> list[Endpoint]:
    """Return the endpoints with the promoted and the retyped columns of this lake.

    Promoted columns that the lake no longer has are removed.
    """
    with lake.single_snapshot():
        return widened(endpoints, promotions(lake), registered_columns(lake), retyped_kinds(lake))


def widened(
    endpoints: Sequence[Endpoint],
    promoted: Sequence[Promotion],
    registered: Sequence[tuple[str, Column]],
    kinds: RetypedKinds,
) -> list[Endpoint]:
    """Return the endpoints with promoted and registered columns, in the kinds that are stored."""
    columns: dict[str, list[Column]] = {}
    for one in promoted:
        columns.setdefault(one.endpoint, []).append(one.column)
    wider = [_widened(endpoint, columns.get(endpoint.name, [])) for endpoint in endpoints]
    return [_retyped(endpoint, kinds) for endpoint in with_registered(wider, registered)]


def retyped_kinds(lake: Lake) -> RetypedKinds:
    """Return the kinds of the columns that were retyped."""
    found = lake.rows("select endpoint, member, kind from meta.retyped order by retyped_at")
    return {(name, member): Kind(kind) for name, member, kind in found}


def with_retyped(lake: Lake, endpoints: Sequence[Endpoint]) -> list[Endpoint]:
    """Return the endpoints with their columns in the kinds in which this lake stores them."""
    kinds = retyped_kinds(lake)
    return [_retyped(endpoint, kinds) for endpoint in endpoints]


def _retyped(endpoint: Endpoint, kinds: RetypedKinds) -> Endpoint:
    columns = tuple(
        replace(column, kind=kinds.get((endpoint.name, column.field), column.kind))
        for column in endpoint.columns
    )
    return endpoint if columns == endpoint.columns else replace(endpoint, columns=columns)


def _widened(endpoint: Endpoint, columns: Sequence[Column]) -> Endpoint:
    """Return the endpoint with those of the columns that its row does not have yet."""
    own = [column for column in endpoint.columns if column.stored_as is None]
    held = {column.name for column in own} | {column.path for column in own}
    more = [column for column in columns if not {column.name, column.path} & held]
    if (*own, *more) == endpoint.columns:
        return endpoint
    return replace(endpoint, columns=(*own, *more))


def members(lake: Lake, endpoint: str | None = None) -> list[Member]:
    """Return the members without a column in the endpoint table, of one endpoint or of all."""
    found = {
        (name, member): (seen, example)
        for name, member, seen, example in lake.rows(
            "select endpoint, member, min(first_seen_at), any_value(example) "
            "from meta.schema_drift where ? is null or endpoint = ? group by all",
            [endpoint, endpoint],
        )
    }
    promoted = {(one.endpoint, one.member): one for one in promotions(lake, endpoint)}
    for key, one in promoted.items():
        found.setdefault(key, (one.promoted_at, ""))  # a member within an object
    return [
        Member(
            endpoint=name,
            member=member,
            first_seen_at=seen,
            example=example,
            kind=promoted[name, member].kind if (name, member) in promoted else None,
            column=promoted[name, member].column.name if (name, member) in promoted else None,
        )
        for (name, member), (seen, example) in sorted(found.items())
    ]


def columns_of_table(lake: Lake, endpoint: str) -> set[str]:
    """Return a raw table's column names in lower case: SQL ignores case."""
    return set(
        lake.values(
            "select lower(column_name) from duckdb_columns() "
            "where database_name = 'lake' and schema_name = 'raw' and table_name = ?",
            [endpoint],
        )
    )
