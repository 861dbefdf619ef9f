"""Run the dbt project in `sql/` over a lake, and tell what came of it."""

from fleetlake.marts.build import BuildResult, ModelResult, build_marts
from fleetlake.marts.catalogue import mart_table
from fleetlake.marts.dbt import Progress, TestResult

__all__ = [
    "BuildResult",
    "ModelResult",
    "Progress",
    "TestResult",
    "build_marts",
    "mart_table",
]
