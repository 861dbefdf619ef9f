"""Counts and checksums of a lake's rows, read with DuckDB alone: no fleetlake opens the lake."""

import hashlib
from collections.abc import Collection
from pathlib import Path
from typing import TypedDict

import duckdb

from fleetlake.endpoints.columns import SQL_TYPES
from fleetlake.lake.attach import UNCHECKED, attach_statements
from fleetlake.lake.evolution.format import MIGRATIONS, RetypeColumn
from fleetlake.text.quoting import quoted

_OF_LOADED = "(added_at is null or added_at <= (select max(committed_at) from meta.loads))"
"""Columns that the release knew: an upgrade adds those of this release."""


class Digest(TypedDict):
    """What a table holds: its columns, its rows, and a checksum of their values in any order."""

    columns: list[str]
    rows: int
    sha256: str


def digests(lake: Path, known: dict[str, Digest] | None = None) -> dict[str, Digest]:
    """Return the digest of each table of a lake, by schema and name.

    With `known`, only its tables and columns: a later release may have added others, which it
    then registers in `meta.columns`.
    """
    with duckdb.connect(config=UNCHECKED | {"threads": 1}) as connection:
        connection.execute(f"{attach_statements(lake, read_only=True)} use lake;")
        wanted = {name: one["columns"] for name, one in (known or {}).items()}
        tables = wanted or _tables(connection)
        return {
            name: _digest(connection, name, columns, tables) for name, columns in tables.items()
        }


def _tables(connection: duckdb.DuckDBPyConnection) -> dict[str, list[str]]:
    found = connection.execute(
        "select schema_name || '.' || table_name, list(column_name order by column_index) "
        "from duckdb_columns() join duckdb_tables() using (database_name, schema_name, table_name) "
        "where database_name = 'lake' and schema_name in ('raw', 'marts', 'meta') "
        "and table_name <> 'lake' group by all order by all"
    )
    return dict(found.fetchall())


def _digest(
    connection: duckdb.DuckDBPyConnection, name: str, columns: list[str], tables: Collection[str]
) -> Digest:
    schema, table = name.split(".")
    listed = ", ".join(f"({_as_before(name, column)})::varchar" for column in columns)
    raw = [one.removeprefix("raw.") for one in tables if one.startswith("raw.")]
    of_them = f"where endpoint in {tuple(raw)} and {_OF_LOADED}" if name == "meta.columns" else ""
    rows = connection.execute(
        f"select {listed} from {schema}.{quoted(table)} {of_them} order by all"
    )
    lines = "\n".join(map(repr, rows.fetchall()))
    digest = hashlib.sha256(lines.encode()).hexdigest()
    return Digest(columns=columns, rows=lines.count("\n") + bool(lines), sha256=digest)


def _as_before(name: str, column: str) -> str:
    """Return the SQL of a column's value as the lake's release stored it, before migrations."""
    retyped = [s for m in MIGRATIONS for s in m.steps if isinstance(s, RetypeColumn)]
    if (name, column) == ("meta.columns", "kind"):
        whens = [
            f"when (endpoint, member) = ('{s.endpoint}', '{s.member}') then '{s.old}'"
            for s in retyped
        ]
        return f"case {' '.join(whens)} else kind end"
    types = {f"raw.{s.endpoint}.{s.member}": SQL_TYPES[s.old] for s in retyped}
    held = types.get(f"{name}.{column}")
    return f"{quoted(column)}::{held}" if held else quoted(column)
