"""Run the dbt project in `sql/` over a lake, and return the results."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fleetlake.marts.build import build_marts
    from fleetlake.marts.dbt import BuildResult, BuildStep, ModelResult, TestResult

__all__ = ["BuildResult", "BuildStep", "ModelResult", "TestResult", "build_marts"]


def __getattr__(name: str) -> Any:
    """Import what is used: dbt's process uses none of it."""
    if name not in __all__:
        raise AttributeError(name)
    place = "build" if name == "build_marts" else "dbt"
    return getattr(import_module(f"fleetlake.marts.{place}"), name)
