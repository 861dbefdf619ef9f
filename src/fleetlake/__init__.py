"""Copies a device-fleet service into Parquet tables you own, exactly once."""
