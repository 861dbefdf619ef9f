"""The format of a lake and the release that wrote it; unsupported formats are refused.

A new column or table is not a new format, because releases ignore those they do not know. The
number increases, by one migration, only if an older release would misread or damage the lake.

A release that changes what a lake holds adds one migration at the end of MIGRATIONS, never changes
an earlier one, and thereby raises the format by one. New columns and tables need no migration:
`tables.create_missing` adds them.

A step names tables and columns as they are at that point of the order, not as today's endpoint
table has them. It does nothing if the lake lacks what it changes.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version

import duckdb

from fleetlake.endpoints.columns import Column, Kind
from fleetlake.endpoints.model import Cursor, Endpoint, Mode, Walk
from fleetlake.errors import LakeError
from fleetlake.lake.attach import unfinished_lake
from fleetlake.lake.connection import Lake
from fleetlake.lake.ducklake import tables_in

FIRST_FORMAT = 1
"""The format of every lake that records none."""


@dataclass(frozen=True, kw_only=True)
class LakeFormat:
    """What a lake records about itself: its format, and the newest release that wrote to it.

    `release` is None if that release did not record itself.
    """

    version: int
    release: str | None


def newest_format() -> int:
    """Return the only format that this release reads and writes."""
    return FIRST_FORMAT + len(MIGRATIONS)


@cache
def this_release() -> str:
    """Return the version of the installed fleetlake."""
    return version("fleetlake")


def is_older(release: str | None, than: str) -> bool:
    """Return whether a release precedes another; one that is not recorded precedes them all.

    >>> is_older("0.2.0", "0.10.0"), is_older("0.2.0", "0.2.0"), is_older(None, "0.1.0")
    (True, False, True)
    """
    return release is None or _numbers(release) < _numbers(than)


def _numbers(release: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", release)[:3]]


def read_format(opened: Lake) -> LakeFormat | None:
    """Return what a lake records about itself, or None if it records nothing yet."""
    # No variable here may be called `lake`: DuckDB would read it in place of the missing table.
    try:
        cursor = opened.connection.execute(
            "select * from meta.lake order by format_version desc limit 1"
        )
    except duckdb.CatalogException:
        return None
    names, row = [column[0] for column in cursor.description or ()], cursor.fetchone()
    if row is None:
        return None
    found = dict(zip(names, row, strict=True))
    # A lake that only an earlier release has written lacks the column `release`.
    return LakeFormat(version=found["format_version"], release=found.get("release"))


def require_known_format(lake: Lake, *, read_only: bool) -> LakeFormat | None:
    """Return what a lake records about itself.

    Raises: LakeError for a format newer than this release, which says what to install; to a
    reader also for an older one, which the first command that writes replaces, and for a lake
    that has no tables yet.
    """
    found, newest = read_format(lake), newest_format()
    recorded = found.version if found else FIRST_FORMAT
    if recorded > newest:
        written = found.release if found else None
        raise LakeError(
            f"The lake in {lake.path} has format {recorded}, but fleetlake {this_release()} "
            f"supports formats up to {newest}.",
            remedy=f"{_to_install(written)} Nothing was read or changed.",
        )
    if read_only and found is None and not has_tables(lake):
        raise unfinished_lake(lake.path)
    if read_only and recorded < newest:
        raise LakeError(
            f"The lake in {lake.path} has format {recorded}; fleetlake {this_release()} reads "
            f"format {newest}.",
            remedy="Upgrade the lake with any command that writes to it, such as `fleetlake "
            "maintain`. To keep a copy for the earlier release, run `fleetlake backup` first.",
        )
    return found


def _to_install(release: str | None) -> str:
    if release is None:
        return "Upgrade fleetlake to the release that wrote the lake, or a later one."
    return f"Install the wheel of fleetlake {release} or a later release."


def has_tables(lake: Lake) -> bool:
    """Return whether a lake has tables of ours: a new one has none."""
    return bool(tables_in(lake, "raw", "meta"))


def note_format(lake: Lake, format_version: int | None = None) -> None:
    """Record a format, by default this release's own, and this release, in the open transaction.

    A newer release that has written to the lake stays recorded.
    """
    known, release = read_format(lake), this_release()
    if known and known.release and not is_older(known.release, release):
        release = known.release
    lake.execute("delete from meta.lake")
    lake.execute(
        "insert into meta.lake (format_version, release, noted_at) values (?, ?, now())",
        [format_version or newest_format(), release],
    )


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
        from fleetlake.lake.evolution.member_values import retype_column  # noqa: PLC0415 - seldom

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
