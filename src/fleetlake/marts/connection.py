"""How a build sees the lake: attached, in UTC, and as of one snapshot.

dbt's process reads the snapshot from its environment. The profile does not name it, because dbt
parses the whole project anew whenever a variable there has changed.
"""

from duckdb import DuckDBPyConnection

from fleetlake.lake.attach import attach_statements
from fleetlake.place import LakePlace

SNAPSHOT_VARIABLE = "FLEETLAKE_BUILD_SNAPSHOT"


def attach_snapshot(connection: DuckDBPyConnection, lake: LakePlace, snapshot: int) -> None:
    """Attach a lake read-only as `lake`, as it was at one snapshot, with times in UTC."""
    connection.execute(attach_statements(lake, version=snapshot))
