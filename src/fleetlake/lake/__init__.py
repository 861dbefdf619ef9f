"""The lake: Parquet files plus a catalog; every change is one transaction."""

from fleetlake.lake.catalog import open_lake
from fleetlake.lake.connection import Lake

__all__ = ["Lake", "open_lake"]
