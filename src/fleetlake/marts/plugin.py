"""A plugin of dbt's DuckDB adapter that attaches the lake to every connection.

`sql/profiles.yml` refers to it. It is a separate module because importing dbt takes a second.
"""

import os

from dbt.adapters.duckdb.plugins import BasePlugin
from duckdb import DuckDBPyConnection

from fleetlake.lake_address import parse_lake_address
from fleetlake.marts.session import (
    SNAPSHOT_VARIABLE,
    TIME_VARIABLE,
    attach_snapshot,
    set_variables,
)


class Plugin(BasePlugin):
    """Attaches the lake to every connection of a dbt run, as `lake`."""

    def configure_connection(self, conn: DuckDBPyConnection) -> None:
        """Attach the lake at the build's snapshot, so that all models read the same rows."""
        snapshot = int(os.environ[SNAPSHOT_VARIABLE])
        lake = parse_lake_address(
            os.environ["FLEETLAKE_LAKE"], os.environ.get("FLEETLAKE_LAKE_FILES")
        )
        attach_snapshot(conn, lake, snapshot)

    def configure_cursor(self, cursor: DuckDBPyConnection) -> None:
        """Set variables with the build's snapshot and time."""
        set_variables(cursor, int(os.environ[SNAPSHOT_VARIABLE]), os.environ[TIME_VARIABLE])
