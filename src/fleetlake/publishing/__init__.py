"""The marts as plain Parquet files."""
