"""Snowflake as a target, through ADBC. Tested with a recorded driver, not the live service."""

from adbc_driver_snowflake import dbapi

from fleetlake.exporters.sql import Dialect, SqlExporter, column_types

SNOWFLAKE = Dialect(
    types=column_types("snowflake"),
    columns=(
        "SELECT column_name FROM information_schema.columns "
        "WHERE table_schema = CURRENT_SCHEMA() AND table_name = {table}"
    ),
    has_backslash=True,
    from_stage={"JSON": "PARSE_JSON({})"},
    has_comments=True,
)


def open_target(address: str) -> SqlExporter:
    """Connect to user:password@account/database/schema?warehouse=name."""
    return SqlExporter(dbapi.connect(address), SNOWFLAKE)
