"""Run the dbt project in `sql/` over a lake, and return the results."""

from fleetlake.marts.build import build_marts
from fleetlake.marts.catalogue import mart_table
from fleetlake.marts.dbt import BuildResult, BuildStep, ModelResult, TestResult

__all__ = [
    "BuildResult",
    "BuildStep",
    "ModelResult",
    "TestResult",
    "build_marts",
    "mart_table",
]
