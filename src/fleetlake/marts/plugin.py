"""The lake in every connection of a dbt run: a plugin of dbt's DuckDB adapter.

Named by `sql/profiles.yml`. It has a module of its own, since importing dbt takes a second.
"""

import os

from dbt.adapters.duckdb.plugins import BasePlugin
from duckdb import DuckDBPyConnection

from fleetlake.lake_address import parse_lake_address
from fleetlake.marts.session import SNAPSHOT_VARIABLE, attach_snapshot


class Plugin(BasePlugin):
    """Gives every connection of a dbt run the lake under the name `lake`."""

    def configure_connection(self, conn: DuckDBPyConnection) -> None:
        """Attach the lake at the build's snapshot, so that all models see one moment."""
        snapshot = int(os.environ[SNAPSHOT_VARIABLE])
        lake = parse_lake_address(
            os.environ["FLEETLAKE_LAKE"], os.environ.get("FLEETLAKE_LAKE_FILES")
        )
        attach_snapshot(conn, lake, snapshot)

    def configure_cursor(self, cursor: DuckDBPyConnection) -> None:
        """Tell the models which snapshot they read (a variable belongs to one cursor)."""
        cursor.execute(f"SET VARIABLE build_snapshot = {int(os.environ[SNAPSHOT_VARIABLE])}")
