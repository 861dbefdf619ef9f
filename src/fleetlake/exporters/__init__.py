"""Exports of the lake's tables to other databases and file formats.

To add a target, write a module with `open_target(address)`, which returns an `Exporter`
(contract.py), and add a row here. Make its driver an optional extra of the package. A package of
its own names its `Target` as an entry point instead.
"""

from dataclasses import dataclass
from importlib.metadata import entry_points

from fleetlake.errors import SettingsError

ENTRY_POINTS = "fleetlake.exporters"
"""The group of the entry points that name targets of other packages."""


@dataclass(frozen=True, kw_only=True)
class Target:
    """An export target. `address` is the default one; databases have none, but an `example`.

    `module` has the target's `open_target`; a leading dot stands for this package. `option` is a
    second argument for it. With `has_geometry`, rows with a place have a column `geometry`, and
    only tables with places are sent by default.
    """

    name: str
    about: str
    module: str
    extra: str | None = None
    address: str | None = None
    example: str | None = None
    option: str | None = None
    has_geometry: bool = False


TARGETS = {
    target.name: target
    for target in (
        Target(
            name="parquet",
            about="Parquet files in a folder or an object store",
            module=".files",
            address="data/exports/parquet",
            option="parquet",
        ),
        Target(
            name="csv",
            about="CSV files in a folder or an object store",
            module=".files",
            address="data/exports/csv",
            option="csv",
        ),
        Target(
            name="jsonl",
            about="JSON lines files in a folder or an object store",
            module=".files",
            address="data/exports/jsonl",
            option="jsonl",
        ),
        Target(
            name="geoparquet",
            about="GeoParquet files for maps: points, trip lines and coverage cells",
            module=".files",
            address="data/exports/geoparquet",
            option="geoparquet",
            has_geometry=True,
        ),
        Target(
            name="delta",
            about="Delta Lake tables, for Spark and similar engines",
            module=".delta",
            extra="delta",
            address="data/exports/delta",
        ),
        Target(
            name="iceberg",
            about="Iceberg tables with a SQL catalog, or any catalog that pyiceberg supports",
            module=".iceberg",
            extra="iceberg",
            address="data/exports/iceberg",
        ),
        Target(
            name="postgres",
            about="PostgreSQL",
            module=".postgres",
            extra="postgres",
            example="postgresql://user:password@host/database",
        ),
        Target(
            name="snowflake",
            about="Snowflake (not tested against the live service)",
            module=".snowflake",
            extra="snowflake",
            example="user:password@account/database/schema?warehouse=name",
        ),
        Target(
            name="bigquery",
            about="BigQuery (not tested against the live service)",
            module=".bigquery",
            extra="bigquery",
            example="bigquery://project/dataset?credentials=key.json",
        ),
    )
}


def plugin_names() -> list[str]:
    """Return the names of the targets that other installed packages add; ours take precedence."""
    return sorted(entry_points(group=ENTRY_POINTS).names - TARGETS.keys())


def plugged_in(name: str) -> Target:
    """Return a target of another package.

    Raises: SettingsError if it cannot be imported or is not a `Target`, or if two packages add it.
    """
    first, *others = entry_points(group=ENTRY_POINTS, name=name)
    if others:
        raise _unusable(name, f"is in two packages: {first.value} and {others[0].value}")
    try:
        target = first.load()
    except Exception as error:
        raise _unusable(name, f"cannot be imported: {error}") from error
    if not isinstance(target, Target) or target.name != name:
        raise _unusable(name, f"names {first.value}, which is not a Target of that name")
    return target


def _unusable(name: str, why: str) -> SettingsError:
    return SettingsError(
        f"The exporter plug-in {name} {why}.", remedy="Correct it, or uninstall its package."
    )
