"""What each table and column means: of marts from the dbt project, of raw tables from endpoints.

The same texts are comments in the lake and in the published DuckDB file, metadata of Parquet files,
and comments at export targets.
"""

import json
from collections.abc import Iterable, Iterator, Mapping

from fleetlake.endpoints import ENDPOINTS
from fleetlake.endpoints.model import Endpoint
from fleetlake.marts.catalogue import Description, mart_meanings
from fleetlake.text.quoting import literal, quoted

UNDESCRIBED: Description = ("", {})


def described_in(schema: str, table: str) -> Description:
    """Return the description of a table; an empty one for a table that has none."""
    return descriptions_of([(schema, table)])[schema, table]


def descriptions_of(tables: Iterable[tuple[str, str]]) -> dict[tuple[str, str], Description]:
    """Return the description of each table, by schema and name."""
    marts = mart_meanings()
    of_raw = {name: _of_endpoint(endpoint) for name, endpoint in ENDPOINTS.items()}
    known = {"marts": marts, "raw": of_raw}
    return {
        (schema, table): known.get(schema, {}).get(table, UNDESCRIBED) for schema, table in tables
    }


def comments(
    relation: str, kind: str, described: Description, present: Mapping[str, str | None]
) -> Iterator[str]:
    """Yield the DuckDB statements that describe a table or view, and its columns if they differ.

    `present` has the comment of each column so far.
    """
    about, meanings = described
    yield f"COMMENT ON {kind} {relation} IS {literal(about)}"
    for column, comment in present.items():
        if (meaning := meanings.get(column, "")) != (comment or ""):
            yield f"COMMENT ON COLUMN {relation}.{quoted(column)} IS {literal(meaning)}"


def parquet_metadata(described: tuple[str, Mapping[str, str]]) -> str:
    """Return the option of DuckDB's COPY that puts a description into each Parquet file.

    >>> print(parquet_metadata(("Trips.", {"trip_id": "Its first fix."})))
    KV_METADATA {description: 'Trips.', columns: '{"trip_id": "Its first fix."}'}
    """
    about, meanings = described
    columns = literal(json.dumps(dict(meanings), ensure_ascii=False))
    return f"KV_METADATA {{description: {literal(about)}, columns: {columns}}}"


def _of_endpoint(endpoint: Endpoint) -> Description:
    units = {
        column.name: f" Unit: {column.unit}." if column.unit else "" for column in endpoint.columns
    }
    return endpoint.about, {c.name: f"{c.meaning}{units[c.name]}" for c in endpoint.columns}
