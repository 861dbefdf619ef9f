"""The lake: Parquet files plus a catalog, every change in one transaction."""

from fleetlake.lake.catalog import Lake, open_lake

__all__ = ["Lake", "open_lake"]
