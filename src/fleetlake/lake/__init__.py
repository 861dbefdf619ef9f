"""The lake: Parquet files plus a catalog; every change is one transaction."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fleetlake.lake.catalog import open_lake
    from fleetlake.lake.connection import Lake

__all__ = ["Lake", "open_lake"]


def __getattr__(name: str) -> Any:
    """Import what is used: dbt's process only attaches a lake."""
    if name not in __all__:
        raise AttributeError(name)
    return getattr(import_module("fleetlake.lake.catalog"), name)
