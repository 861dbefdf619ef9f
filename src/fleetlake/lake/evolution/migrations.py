"""Migrations: how a lake of one format becomes a lake of the next.

A release that renames or retypes what a lake holds adds one migration at the end of MIGRATIONS,
never changes an earlier one, and thereby raises the format by one. New columns and tables need no
migration: `tables.create_missing` adds them.

A step names tables and columns as they are at that point of the order, not as today's endpoint
table has them. It does nothing if the lake lacks what it changes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from fleetlake.endpoints.columns import Column, Kind
from fleetlake.endpoints.model import Cursor, Endpoint, Mode, Walk
from fleetlake.lake.connection import Lake
from fleetlake.lake.evolution.member_values import (
    empty_column,
    forget_drift,
    move_values,
    retype_column,
)
from fleetlake.lake.evolution.promotions import promotions
from fleetlake.text.quoting import quoted


class Step(Protocol):
    """One change of a lake."""

    renames_table: bool

    def apply(self, lake: Lake) -> None:
        """Make the change in the open transaction."""


@dataclass(frozen=True, kw_only=True)
class RenameColumn:
    """The service's member `old` is now called `new`; the column's name follows from it.

    Values under the new name, which releases before this one kept in `_extra` or in a promoted
    column, move into the renamed column. Where a record has both members, the new one counts.
    """

    endpoint: str
    old: str
    new: str
    kind: Kind
    renames_table = False

    def apply(self, lake: Lake) -> None:
        """Rename the column in the open transaction."""
        old, new = (Column(field=field, kind=self.kind, meaning="") for field in _pair(self))
        table, row = f"raw.{quoted(self.endpoint)}", _endpoint(self.endpoint, new)
        if old.name not in _types(lake, "raw", self.endpoint):
            return
        for one in promotions(lake, self.endpoint):
            if one.path == new.path or one.column.name == new.name:
                empty_column(lake, row, one.column)
                lake.execute(
                    "delete from meta.promoted where endpoint = ? and member = ?",
                    [one.endpoint, one.member],
                )
        lake.execute(f"alter table {table} rename column {quoted(old.name)} to {quoted(new.name)}")
        move_values(lake, row, new)
        forget_drift(lake, self.endpoint, new)
        lake.execute(
            "delete from meta.columns where endpoint = ? and member = ?",
            [self.endpoint, new.field],
        )
        lake.execute(
            "update meta.columns set member = ? where endpoint = ? and member = ?",
            [new.field, self.endpoint, old.field],
        )


@dataclass(frozen=True, kw_only=True)
class RetypeColumn:
    """The column of a member is now stored in another type.

    A value that the new type cannot hold unchanged moves to `_extra`, as in a load, and values in
    `_extra` that the old type could not hold move to the column. `value` is the SQL of the new
    value, with `{}` for the old one, where a cast is not enough; null sends the old value to
    `_extra`.
    """

    endpoint: str
    member: str
    old: Kind
    new: Kind
    value: str | None = None
    renames_table = False

    def apply(self, lake: Lake) -> None:
        """Give the column its new type in the open transaction."""
        old, new = (
            Column(field=self.member, kind=kind, meaning="") for kind in (self.old, self.new)
        )
        if _types(lake, "raw", self.endpoint).get(old.name) != old.sql_type:
            return
        retype_column(lake, _endpoint(self.endpoint, old), old, new, self.value)
        lake.execute(
            "update meta.columns set kind = ? where endpoint = ? and member = ?",
            [str(self.new), self.endpoint, self.member],
        )


@dataclass(frozen=True, kw_only=True)
class RenameEndpoint:
    """An endpoint has a new name: its raw table, and its rows in all tables of `meta`.

    Its staging views are dropped, because they read the old name; the next build makes new ones.
    """

    old: str
    new: str
    renames_table = True

    def apply(self, lake: Lake) -> None:
        """Rename the endpoint in the open transaction."""
        if not _types(lake, "raw", self.old):
            return
        lake.execute(f"alter table raw.{quoted(self.old)} rename to {quoted(self.new)}")
        for view in (f"stg_{self.old}", f"stg_{self.old}_history"):
            lake.execute(f"drop view if exists staging.{quoted(view)}")
        lake.execute(f"drop view if exists current.{quoted(self.old)}")
        for (table,) in lake.rows(
            "select table_name from duckdb_columns() where database_name = 'lake' "
            "and schema_name = 'meta' and column_name = 'endpoint'"
        ):
            lake.execute(
                f"update meta.{quoted(table)} set endpoint = ? where endpoint = ?",
                [self.new, self.old],
            )


@dataclass(frozen=True, kw_only=True)
class RenameMart:
    """A mart has a new name. Until the next build, its table keeps its rows and columns.

    A view of the old name stays, in the lake and in published snapshots, until a later release
    adds the step `ForgetMart`.
    """

    old: str
    new: str
    renames_table = True

    def apply(self, lake: Lake) -> None:
        """Rename the mart in the open transaction."""
        if _types(lake, "marts", self.old):
            lake.execute(f"alter table marts.{quoted(self.old)} rename to {quoted(self.new)}")
            lake.execute(f"create view marts.{quoted(self.old)} as from marts.{quoted(self.new)}")


@dataclass(frozen=True, kw_only=True)
class ForgetMart:
    """The earlier name of a renamed mart has been deprecated for long enough: its view goes."""

    old: str
    renames_table = True

    def apply(self, lake: Lake) -> None:
        """Drop the view in the open transaction."""
        if lake.rows(
            "select 1 from duckdb_views() where database_name = 'lake' "
            "and schema_name = 'marts' and view_name = ?",
            [self.old],
        ):
            lake.execute(f"drop view marts.{quoted(self.old)}")


@dataclass(frozen=True, kw_only=True)
class Migration:
    """The steps from one format to the next: one transaction. `about` is shown to the user."""

    about: str
    steps: Sequence[Step]

    def __post_init__(self) -> None:
        """Refuse an order of steps that damages a catalog.

        In DuckLake 1.5.5, a table that is renamed after one of its columns was, in the same
        transaction, has each column twice and cannot be read any more (observed 2026-11-23).
        """
        kinds = [step.renames_table for step in self.steps]
        if kinds != sorted(kinds, reverse=True):
            raise ValueError(f"tables are renamed before columns: {self.about}")


def _real(endpoint: str, member: str) -> RetypeColumn:
    return RetypeColumn(endpoint=endpoint, member=member, old=Kind.INTEGER, new=Kind.REAL)


MIGRATIONS: tuple[Migration, ...] = (
    Migration(
        about="seconds and health scores may be fractions",
        steps=(
            _real("net_devices", "uptime"),
            _real("net_device_health", "cellular_health_score"),
            _real("net_device_signal_samples", "uptime"),
            _real("net_device_usage_samples", "period"),
            _real("net_device_usage_samples", "uptime"),
            _real("router_state_samples", "period"),
            _real("router_stream_usage_samples", "period"),
            _real("router_stream_usage_samples", "uptime"),
        ),
    ),
)
"""The migration at index n makes a lake of format n + 1 one of format n + 2."""


def earlier_names(migrations: Sequence[Migration]) -> set[str]:
    """Return the names of endpoints that migrations replace, under which they may be loading."""
    steps = [step for migration in migrations for step in migration.steps]
    return {step.old for step in steps if isinstance(step, RenameEndpoint)}


def _pair(step: RenameColumn) -> tuple[str, str]:
    return step.old, step.new


def _types(lake: Lake, schema: str, table: str) -> dict[str, str]:
    """Return the type of each column of a table: none if there is no such table."""
    return dict(
        lake.rows(
            "select column_name, data_type from duckdb_columns() "
            "where database_name = 'lake' and schema_name = ? and table_name = ?",
            [schema, table],
        )
    )


def _endpoint(name: str, column: Column) -> Endpoint:
    """Return an endpoint as far as a step knows it: its table and one column."""
    return Endpoint(
        name=name,
        about="",
        key=(column.name,),
        mode=Mode.APPEND,
        cursor=Cursor(walk=Walk.LINK, parameter="next"),
        columns=(column,),
    )
