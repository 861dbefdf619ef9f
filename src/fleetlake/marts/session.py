"""The DuckDB session of a build: the lake attached at one snapshot, in UTC, with a memory limit.

dbt's process gets snapshot, time and memory from its environment. The profile contains neither
snapshot nor time, because dbt parses the whole project again if a variable in the profile changes.
"""

from pathlib import Path

from duckdb import DuckDBPyConnection

from fleetlake.lake.attach import attach_statements, set_threads
from fleetlake.lake_address import LakeAddress
from fleetlake.text.quoting import literal

SNAPSHOT_VARIABLE = "FLEETLAKE_BUILD_SNAPSHOT"
TIME_VARIABLE = "FLEETLAKE_BUILD_TIME"
MEMORY_VARIABLE = "FLEETLAKE_BUILD_MEMORY"


def attach_snapshot(connection: DuckDBPyConnection, lake: LakeAddress, snapshot: int) -> None:
    """Attach a lake read-only as `lake`, at one snapshot, with times in UTC and its threads."""
    connection.execute(attach_statements(lake, version=snapshot))
    set_threads(connection)


def set_variables(cursor: DuckDBPyConnection, snapshot: int, built_at: str) -> None:
    """Set the variables that models read. A variable belongs to one cursor."""
    cursor.execute(
        f"SET VARIABLE build_snapshot = {snapshot};"
        f"SET VARIABLE built_at = {literal(built_at)}::TIMESTAMPTZ"
    )


def limit_memory(connection: DuckDBPyConnection, memory: str, spill: Path) -> None:
    """Limit the memory of a connection; what does not fit spills to a folder."""
    connection.execute("SET memory_limit = $1", [memory])
    connection.execute("SET temp_directory = $1", [str(spill)])
