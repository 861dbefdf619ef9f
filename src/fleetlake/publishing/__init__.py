"""Publishing of the marts as plain Parquet files."""
