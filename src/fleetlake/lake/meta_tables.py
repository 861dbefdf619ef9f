"""Whether a lake has a table of `meta`: one that only an older release has written may lack it."""

from fleetlake.lake.connection import Lake


def has_meta(lake: Lake, name: str, column: str | None = None) -> bool:
    """Return whether a lake has a table of `meta`, with a column if one is named.

    Opening it for writing creates all of them.
    """
    return not lake.is_read_only or bool(
        lake.rows(
            "select 1 from duckdb_columns() where database_name = 'lake' and schema_name = 'meta' "
            "and table_name = $name and column_name = coalesce($column, column_name) limit 1",
            {"name": name, "column": column},
        )
    )
