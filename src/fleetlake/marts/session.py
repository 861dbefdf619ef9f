"""How a build sees the lake: attached, in UTC, and as of one snapshot, within so much memory.

dbt's process is told of snapshot and memory by its environment. The snapshot is not named in
its profile, because dbt parses the whole project anew whenever a variable there has changed.
"""

from pathlib import Path

from duckdb import DuckDBPyConnection

from fleetlake.lake.attach import attach_statements
from fleetlake.lake_address import LakeAddress

SNAPSHOT_VARIABLE = "FLEETLAKE_BUILD_SNAPSHOT"
MEMORY_VARIABLE = "FLEETLAKE_BUILD_MEMORY"


def attach_snapshot(connection: DuckDBPyConnection, lake: LakeAddress, snapshot: int) -> None:
    """Attach a lake read-only as `lake`, as it was at one snapshot, with times in UTC."""
    connection.execute(attach_statements(lake, version=snapshot))


def limit_memory(connection: DuckDBPyConnection, memory: str, spill: Path) -> None:
    """Keep a connection within so much memory: what does not fit goes to a folder."""
    connection.execute("SET memory_limit = $1", [memory])
    connection.execute("SET temp_directory = $1", [str(spill)])
