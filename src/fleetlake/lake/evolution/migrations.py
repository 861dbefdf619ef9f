"""Migrations: how a lake of one format becomes a lake of the next.

A release that changes what a lake holds adds one migration at the end of MIGRATIONS, never changes
an earlier one, and thereby raises the format by one. New columns and tables need no migration:
`tables.create_missing` adds them.

A step names tables and columns as they are at that point of the order, not as today's endpoint
table has them. It does nothing if the lake lacks what it changes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from fleetlake.endpoints.columns import Column, Kind
from fleetlake.endpoints.model import Cursor, Endpoint, Mode, Walk
from fleetlake.lake.connection import Lake
from fleetlake.lake.evolution.member_values import retype_column


@dataclass(frozen=True, kw_only=True)
class RetypeColumn:
    """The column of a member is now stored in another type.

    A value that the new type cannot hold unchanged moves to `_extra`, as in a load, and values in
    `_extra` that the old type could not hold move to the column.
    """

    endpoint: str
    member: str
    old: Kind
    new: Kind

    def apply(self, lake: Lake) -> None:
        """Give the column its new type in the open transaction."""
        old, new = (
            Column(field=self.member, kind=kind, meaning="") for kind in (self.old, self.new)
        )
        found = lake.rows(
            "select data_type from duckdb_columns() where database_name = 'lake' "
            "and (schema_name, table_name, column_name) = ('raw', ?, ?)",
            [self.endpoint, old.name],
        )
        if found != [(old.sql_type,)]:
            return
        # The endpoint as far as this step knows it: its table and one column.
        endpoint = Endpoint(
            name=self.endpoint,
            about="",
            key=(old.name,),
            mode=Mode.APPEND,
            cursor=Cursor(walk=Walk.LINK, parameter="next"),
            columns=(old,),
        )
        retype_column(lake, endpoint, old, new)
        lake.execute(
            "update meta.columns set kind = ? where endpoint = ? and member = ?",
            [str(self.new), self.endpoint, self.member],
        )


@dataclass(frozen=True, kw_only=True)
class Migration:
    """The steps from one format to the next: one transaction. `about` is shown to the user."""

    about: str
    steps: Sequence[RetypeColumn]


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
