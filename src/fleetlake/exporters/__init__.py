"""Exports: the lake's tables in other people's databases and file formats.

A new target is a module that has `open_target(address)` and returns an `Exporter` (contract.py),
and a row here. Its driver is an optional extra of the package.
"""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Target:
    """Where exports may go. `address` is its default; databases have none.

    `option` is what the module's `open_target` is told besides the address.
    """

    name: str
    about: str
    module: str
    extra: str | None = None
    address: str | None = None
    option: str | None = None


TARGETS = {
    target.name: target
    for target in (
        Target(
            name="parquet",
            about="Parquet files in a folder or an object store",
            module="files",
            address="data/exports/parquet",
            option="parquet",
        ),
        Target(
            name="csv",
            about="CSV files, likewise",
            module="files",
            address="data/exports/csv",
            option="csv",
        ),
        Target(
            name="jsonl",
            about="JSON lines, likewise",
            module="files",
            address="data/exports/jsonl",
            option="jsonl",
        ),
        Target(
            name="delta",
            about="Delta Lake tables, for Spark and its kin",
            module="delta",
            extra="delta",
            address="data/exports/delta",
        ),
        Target(
            name="iceberg",
            about="Iceberg tables with a SQL catalog, or any catalog that pyiceberg knows",
            module="iceberg",
            extra="iceberg",
            address="data/exports/iceberg",
        ),
        Target(
            name="postgres",
            about="PostgreSQL",
            module="postgres",
            extra="postgres",
        ),
        Target(
            name="snowflake",
            about="Snowflake (never run against the live service)",
            module="snowflake",
            extra="snowflake",
        ),
        Target(
            name="bigquery",
            about="BigQuery (never run against the live service)",
            module="bigquery",
            extra="bigquery",
        ),
    )
}
