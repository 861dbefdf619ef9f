"""How a build sees the lake: attached, in UTC, and as of one snapshot.

Loaded by dbt as a plugin of its DuckDB adapter (`sql/profiles.yml`). The snapshot is read from
the environment here and not in the profile, because dbt parses the whole project anew whenever
a variable that a profile names has changed.
"""

import os
from pathlib import Path

from dbt.adapters.duckdb.plugins import BasePlugin
from duckdb import DuckDBPyConnection

from fleetlake.lake.catalog import BUSY_MILLISECONDS, CATALOG, EXTENSIONS, FILES, extension_path

LAKE_VARIABLE = "FLEETLAKE_BUILD_LAKE"
SNAPSHOT_VARIABLE = "FLEETLAKE_BUILD_SNAPSHOT"


def attach_snapshot(connection: DuckDBPyConnection, lake: Path, snapshot: int) -> None:
    """Attach a lake read-only as `lake`, as it was at one snapshot, with times in UTC."""
    for name in EXTENSIONS:
        connection.execute(f"LOAD {_quoted(extension_path(name))}")
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute(
        f"ATTACH {_quoted(f'ducklake:sqlite:{lake / CATALOG}')} AS lake ("
        f"DATA_PATH {_quoted(f'{lake / FILES}/')}, OVERRIDE_DATA_PATH true, "
        f"META_BUSY_TIMEOUT {BUSY_MILLISECONDS}, SNAPSHOT_VERSION {snapshot})"
    )


def _quoted(text: object) -> str:
    return "'" + str(text).replace("'", "''") + "'"


class Plugin(BasePlugin):
    """Gives every connection of a dbt run the lake under the name `lake`."""

    def configure_connection(self, conn: DuckDBPyConnection) -> None:
        """Attach the lake at the build's snapshot, so that all models see one moment."""
        snapshot = int(os.environ[SNAPSHOT_VARIABLE])
        attach_snapshot(conn, Path(os.environ[LAKE_VARIABLE]), snapshot)

    def configure_cursor(self, cursor: DuckDBPyConnection) -> None:
        """Tell the models which snapshot they read (a variable belongs to one cursor)."""
        cursor.execute(f"SET VARIABLE build_snapshot = {int(os.environ[SNAPSHOT_VARIABLE])}")
