"""The DuckDB session of a build: the lake attached at one snapshot, in UTC, with a memory limit.

dbt's process gets snapshot and memory from its environment. The profile does not contain the
snapshot, because dbt parses the whole project again if a variable in the profile changes.
"""

from pathlib import Path

from duckdb import DuckDBPyConnection

from fleetlake.lake.attach import attach_statements, set_threads
from fleetlake.lake_address import LakeAddress

SNAPSHOT_VARIABLE = "FLEETLAKE_BUILD_SNAPSHOT"
MEMORY_VARIABLE = "FLEETLAKE_BUILD_MEMORY"


def attach_snapshot(connection: DuckDBPyConnection, lake: LakeAddress, snapshot: int) -> None:
    """Attach a lake read-only as `lake`, at one snapshot, with times in UTC and its threads."""
    connection.execute(attach_statements(lake, version=snapshot))
    set_threads(connection)


def limit_memory(connection: DuckDBPyConnection, memory: str, spill: Path) -> None:
    """Limit the memory of a connection; what does not fit spills to a folder."""
    connection.execute("SET memory_limit = $1", [memory])
    connection.execute("SET temp_directory = $1", [str(spill)])
