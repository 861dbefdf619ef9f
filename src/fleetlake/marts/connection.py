"""How a build sees the lake: attached, in UTC, and as of one snapshot.

Loaded by dbt as a plugin of its DuckDB adapter (`sql/profiles.yml`). The snapshot is read from
the environment here and not in the profile, because dbt parses the whole project anew whenever
a variable that a profile names has changed.
"""

import os

from dbt.adapters.duckdb.plugins import BasePlugin
from duckdb import DuckDBPyConnection

from fleetlake.lake.attach import attach_statements
from fleetlake.place import LakePlace, lake_place

SNAPSHOT_VARIABLE = "FLEETLAKE_BUILD_SNAPSHOT"


def attach_snapshot(connection: DuckDBPyConnection, lake: LakePlace, snapshot: int) -> None:
    """Attach a lake read-only as `lake`, as it was at one snapshot, with times in UTC."""
    connection.execute(attach_statements(lake, version=snapshot))


class Plugin(BasePlugin):
    """Gives every connection of a dbt run the lake under the name `lake`."""

    def configure_connection(self, conn: DuckDBPyConnection) -> None:
        """Attach the lake at the build's snapshot, so that all models see one moment."""
        snapshot = int(os.environ[SNAPSHOT_VARIABLE])
        lake = lake_place(os.environ["FLEETLAKE_LAKE"], os.environ.get("FLEETLAKE_LAKE_FILES"))
        attach_snapshot(conn, lake, snapshot)

    def configure_cursor(self, cursor: DuckDBPyConnection) -> None:
        """Tell the models which snapshot they read (a variable belongs to one cursor)."""
        cursor.execute(f"SET VARIABLE build_snapshot = {int(os.environ[SNAPSHOT_VARIABLE])}")
