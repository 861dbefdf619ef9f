"""The lake's tables: one raw table per endpoint, and the tables about loads.

Opening a lake adds tables and columns that are new in the endpoint table. Nothing is ever
dropped.
"""

from fleetlake.endpoints import ENDPOINTS
from fleetlake.endpoints.columns import Column
from fleetlake.endpoints.model import Endpoint, Mode
from fleetlake.lake.connection import Lake
from fleetlake.lake.ducklake import add_statistics, columns_of_tables, tables_in
from fleetlake.lake.evolution.format import note_format
from fleetlake.text.quoting import quoted
from fleetlake.text.tables_beside import rows_beside

_Present = dict[tuple[str, str], set[str]]  # columns by schema and table

SCHEMAS = ("raw", "staging", "marts", "meta")

ROW_GROUP_ROWS = 61_440
"""Rows of a Parquet row group. A writer holds one in memory before it compresses it.

DuckDB's own size is twice this. With it, a load of 500,000 alerts takes 40 MB more memory and 3 %
more CPU time; DuckDB reads both equally fast.
"""

_FILE_OPTIONS: tuple[dict[str, str | int], ...] = (
    {"parquet_row_group_size": ROW_GROUP_ROWS},
    {"parquet_compression": "zstd", "parquet_compression_level": 1, "parquet_version": 2},
)
"""How files are written. Of each group, all are set or none: a level belongs to its codec.

The files of the sample tables have 0.6 of their bytes with DuckLake's defaults (Snappy, version 1),
take the same CPU time to write and a tenth less to read. A UUID takes 14 to 16 bytes a row instead
of 29. With the version's plain lengths, level 1 compresses such texts better than levels 2 to 12.
DuckDB's type for UUIDs, with level 3, would save another 5 % of the bytes.
"""

PROVENANCE = {
    "account_profile": "VARCHAR",  # the account that read the record
    "_extra": "JSON",  # members without a column
    "_load_id": "VARCHAR",  # the load that wrote the row, see meta.loads
    "_loaded_at": "TIMESTAMP WITH TIME ZONE",
}
VERSIONS = {
    "valid_from": "TIMESTAMP WITH TIME ZONE",  # included
    "valid_to": "TIMESTAMP WITH TIME ZONE",  # not included; null for the current version
}


def _meta() -> dict[str, dict[str, str]]:
    tables: dict[str, dict[str, str]] = {}
    for row in rows_beside(__file__, "meta_tables.csv"):
        columns = tables.setdefault(row["table"], {})
        if row["column"]:
            columns[row["column"]] = row["type"]
    return tables


META = _meta()
"""Types of columns by table of `meta`; `meta_tables.csv` says what each table and column holds."""


def raw_columns(endpoint: Endpoint) -> dict[str, str]:
    """Return the columns of an endpoint's raw table with their SQL types."""
    own = {column.name: column.sql_type for column in endpoint.columns}
    return own | PROVENANCE | (VERSIONS if endpoint.mode is Mode.HISTORY else {})


def not_described(lake: Lake) -> list[str]:
    """Return the raw tables with rows that no list of this release or the project describes."""
    tables = sorted({name for _, name in tables_in(lake, "raw")} - ENDPOINTS.keys())
    return [name for name in tables if lake.rows(f"select 1 from raw.{quoted(name)} limit 1")]


def count_missing(lake: Lake) -> tuple[int, int]:
    """Return how many tables and columns the lake lacks."""
    found = [statement.partition(" table ")[0] for statement in _statements(_present(lake))]
    return found.count("create"), found.count("alter")


def missing_of_meta(lake: Lake) -> list[str]:
    """Return the statements that create the tables and columns of `meta` that the lake lacks."""
    present = _present(lake)
    return [
        statement
        for name, columns in META.items()
        for statement in _missing(f"meta.{name}", columns, present.get(("meta", name)))
    ]


def create_missing(lake: Lake) -> None:
    """Create the schemas, tables and columns that the lake lacks."""
    present = _present(lake)
    statements, gained = _statements(present), _gained(present)
    if not statements:
        return
    from fleetlake.lake.evolution import registry  # noqa: PLC0415 - few opens have anything to do

    schemas = [f"create schema if not exists {schema}" for schema in SCHEMAS]
    with lake.transaction():
        lake.execute(";\n".join([*schemas, *statements]))
        set_file_options(lake)
        for endpoint, column in gained:
            registry.fill_gained(lake, endpoint, column)
        for name in _newly_versioned(present):
            lake.execute(f"update raw.{quoted(name)} set valid_from = _loaded_at")
        registry.register_columns(lake, ENDPOINTS.values(), {(e.name, c.name) for e, c in gained})
        note_format(lake)
    add_statistics(lake)


def set_file_options(lake: Lake) -> None:
    """Set how new files are written, as far as the lake's owner has not chosen that."""
    chosen = {*lake.values("select option_name from lake.options()")}
    for options in _FILE_OPTIONS:
        if chosen.isdisjoint(options):
            for name, value in options.items():
                lake.execute(f"call lake.set_option('{name}', '{value}')")


def _gained(present: _Present) -> list[tuple[Endpoint, Column]]:
    """Return the columns that existing raw tables lack."""
    return [
        (endpoint, column)
        for endpoint in ENDPOINTS.values()
        if ("raw", endpoint.name) in present
        for column in endpoint.columns
        if column.name not in present["raw", endpoint.name]
    ]


def _newly_versioned(present: _Present) -> list[str]:
    """Return the lists that this release keeps as history, and the lake's release did not."""
    return [
        name
        for name, endpoint in ENDPOINTS.items()
        if endpoint.mode is Mode.HISTORY
        and "valid_from" not in present.get(("raw", name), {"valid_from"})
    ]


def _present(lake: Lake) -> _Present:
    """Return the columns of the lake's own tables, by schema and table."""
    return columns_of_tables(lake, "raw", "meta")


def _statements(present: _Present) -> list[str]:
    wanted = {("raw", e.name): raw_columns(e) for e in ENDPOINTS.values()}
    wanted |= {("meta", name): columns for name, columns in META.items()}
    return [
        statement
        for (schema, table), columns in wanted.items()
        for statement in _missing(f"{schema}.{table}", columns, present.get((schema, table)))
    ]


def _missing(table: str, columns: dict[str, str], present: set[str] | None) -> list[str]:
    if present is None:
        listed = ", ".join(f"{quoted(name)} {kind}" for name, kind in columns.items())
        return [f"create table {table} ({listed})"]
    return [
        f"alter table {table} add column {quoted(name)} {kind}"
        for name, kind in columns.items()
        if name not in present
    ]
