"""Restricting `query` and `shell` to reading the lake, and nothing else on this machine.

DuckDB's own limits come first: only the lake's files, no extensions, no changes to settings.
They leave four gaps, which a check of each statement closes. COPY and EXPORT may write where
reading is allowed. The SQLite and PostgreSQL extensions open files and servers despite the
limits. DuckLake functions change the lake or its files. DuckDB allows the files of attached
databases, including the catalog. The lake's other files are Parquet, so no function that reads
another format is allowed.
"""

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import duckdb

from fleetlake.errors import UsageError
from fleetlake.lake.attach import FILES, HISTORY_SETTING
from fleetlake.lake.connection import Lake
from fleetlake.lake.ducklake import METADATA, READ_FUNCTIONS
from fleetlake.lake_address import SharedLake
from fleetlake.text.quoting import literal

REMEDY = (
    "Queries only read the lake. `--unsafe` allows COPY, ATTACH, SET and files of this machine; "
    "the lake stays read-only."
)
SETTINGS = ("TimeZone", "Calendar", "default_order", "default_null_order")
"""Settings that a statement may change; they affect only how values are read and printed."""

_MAY_CALL = {
    *("range", "generate_series", "unnest", "repeat", "repeat_row", "json_each", "json_tree"),
    *("histogram", "histogram_values", "pg_timezone_names", "icu_calendar_names", "glob"),
    *("read_parquet", "parquet_scan", "parquet_schema", "parquet_metadata"),
    *("parquet_file_metadata", "parquet_kv_metadata", "parquet_full_metadata"),
    *("duckdb_columns", "duckdb_constraints", "duckdb_functions", "duckdb_keywords"),
    *("duckdb_memory", "duckdb_schemas", "duckdb_settings", "duckdb_tables", "duckdb_types"),
    *("duckdb_views", "duckdb_temporary_files", "duckdb_extensions", "pragma_table_info"),
    *("pragma_version", "pragma_show", "summary"),
    *READ_FUNCTIONS,
}
"""Table functions that read what DuckDB's own limits allow; a new one is refused until listed."""

_READS_FILES = {"glob", "parquet_scan", "duckdb_tables", *READ_FUNCTIONS}
_BARRED = {METADATA, "pragma_database_list", "show_databases"}
_READS = {"SELECT", "EXPLAIN", "TRANSACTION", "SET", "CREATE"}
_TABLES = """
SELECT DISTINCT lower(schema_name), lower(table_name) FROM duckdb_columns()
WHERE database_name = 'lake'
"""
"""Tables and views. `duckdb_tables()` would read the statistics of them all: 0.1 s."""
_PARTS = ("catalog_name", "schema_name", "table_name")
_EXPLAIN = re.compile(r"\s*explain\s+(?:analyze\s+)?(.*)", re.IGNORECASE | re.DOTALL)
_TEMPORARY = re.compile(
    r"\s*create\s+(?:or\s+replace\s+)?temp(?:orary)?\s+table\s+\w+\s+as\s+(.*)",
    re.IGNORECASE | re.DOTALL,
)


def spill_into(lake: Lake, folder: Path | None) -> None:
    """Let large sorts and joins spill to a folder; without one, they must fit into memory."""
    lake.execute(f"SET temp_directory = {literal(folder or '')}")


@contextmanager
def spill_folder() -> Iterator[Path | None]:
    """Yield a private folder for data that does not fit into memory, then remove it.

    Yields None if no temporary folder can be written.
    """
    try:
        folder = Path(mkdtemp(prefix="fleetlake-query-"))
    except OSError:
        yield None
        return
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def close_off(lake: Lake) -> None:
    """Restrict SQL on an open lake to reading. This cannot be undone."""
    address = lake.path
    files = address.files if isinstance(address, SharedLake) else str(address / FILES)
    lake.execute(
        f"SET allowed_directories = [{literal(f'{files}/')}];"
        "SET python_enable_replacements = false;"  # a name is never a variable of this program
        "SET enable_external_access = false;"
        f"SET allowed_configs = [{', '.join(map(literal, (*SETTINGS, HISTORY_SETTING)))}];"
        "SET lock_configuration = true;"
    )
    lake.check = require_reading


def require_reading(
    connection: duckdb.DuckDBPyConnection, statement: duckdb.Statement, whole: str
) -> None:
    """Raise UsageError for a statement that may do more than read the lake.

    `whole` is the user's entire text. It is needed because DuckDB turns a PIVOT without IN into
    two statements without text.
    """
    kind, text = statement.type.name, statement.query
    if kind == "TRANSACTION":  # after a failed transaction, only this kind runs
        return
    if kind not in _READS:
        raise _refused(kind if kind.isidentifier() else "it")
    _require_open_path(connection)
    if kind == "CREATE" and text:
        text = _inner_select(connection, _TEMPORARY.match(text), "CREATE")
    if kind == "EXPLAIN":
        text = _inner_select(connection, _EXPLAIN.match(text), "EXPLAIN of this")
    tree = None if kind == "SET" else _tree(connection, text)
    barred = _barred(connection)
    if tree is None:
        found = next((name for name in sorted(barred) if _holds(text or whole, name)), None)
    else:
        found = next(_named(tree, barred), None)
    if found:
        raise _refused(found)


@dataclass(frozen=True)
class Reads:
    """What SQL reads: tables as `schema.table`, and `beyond` them files, changes, old snapshots."""

    tables: frozenset[str]
    beyond: frozenset[str] = frozenset()


def tables_read(lake: Lake, sql: str) -> Reads:
    """Return what a user's SQL reads, as DuckDB's parser finds it; rather too much than too little.

    A name without a schema counts as the table of this name in any schema. Where DuckDB gives no
    syntax tree, each name of a table in the text counts. Raises: duckdb.Error for a syntax error.
    """
    tables, beyond, unclear = set[str](), set[str](), set[str]()
    texts = list[str]()
    statements = lake.connection.extract_statements(sql)
    # After USE, a named query may read the table of its name: `with trips as (from trips) ...`.
    has_path = any(statement.type.name == "SET" for statement in statements)
    for statement in statements:
        kind, text = statement.type.name, statement.query
        if kind == "CREATE" and (found := _TEMPORARY.match(text)):
            kind, text = "SELECT", found[1]
        tree = _tree(lake.connection, text) if kind == "SELECT" else None
        if tree is None:
            texts += [] if kind in {"EXPLAIN", "TRANSACTION"} else [text or sql]
            continue
        nodes = [*_nodes(tree)]
        own = {str(one["key"]).lower() for node in nodes for one in _named_queries(node)}
        for node in nodes:
            if node.get("type") == "TABLE_FUNCTION":
                name = str(node.get("function", {}).get("function_name", "")).lower()
                is_of_values = name in _MAY_CALL - _READS_FILES and "parquet" not in name
                beyond |= set() if is_of_values else {name}
            elif node.get("type") == "BASE_TABLE":
                catalog, schema, name = (str(node.get(part, "")).lower() for part in _PARTS)
                is_of_path = (catalog, schema) == ("", "lake")  # `lake.trips`, after USE
                schema = "" if is_of_path else schema
                beyond |= {"AT"} if node.get("at_clause") else set()
                beyond |= {name} if not schema and name.endswith(".parquet") else set()
                tables |= {f"{schema}.{name}"} if schema else set()
                unclear |= (
                    {name} - (set() if has_path or is_of_path else own) if not schema else set()
                )
    if texts or unclear:
        for schema, name in lake.rows(_TABLES):
            if name in unclear or any(_holds(text, name) for text in texts):
                tables.add(f"{schema}.{name}")
    return Reads(frozenset(tables), frozenset(beyond))


def _named_queries(node: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the queries that a node of a syntax tree gives names, by WITH."""
    found = node.get("cte_map")
    return found["map"] if isinstance(found, dict) else []


def is_refusal(error: duckdb.Error) -> bool:
    """Return whether DuckDB refused a statement because of its limits, not because of its SQL."""
    text = str(error)
    return any(sign in text for sign in ("disabled by", "disabled through", "has been locked"))


def _require_open_path(connection: duckdb.DuckDBPyConnection) -> None:
    """Raise UsageError, and reset the search path, if it contains the catalog's database.

    A SET may compose the path from parts, so the resulting path is checked, not the statement.
    """
    row = connection.execute("SELECT current_setting('search_path')").fetchone()
    if row and _holds(row[0], METADATA):
        connection.execute("USE lake")
        raise _refused(METADATA)


def _inner_select(
    connection: duckdb.DuckDBPyConnection, found: re.Match[str] | None, kind: str
) -> str:
    """Return the single query inside a statement. Raises: UsageError if there is none."""
    inner = connection.extract_statements(found[1]) if found else []
    if [statement.type.name for statement in inner] != ["SELECT"]:
        raise _refused(kind)
    return inner[0].query


def _holds(text: str, name: str) -> bool:
    """Return whether a text contains a name as a whole word.

    A digit may precede it: DuckDB reads `1name` as a number and a name.
    """
    return bool(re.search(rf"(?<![^\W\d]){re.escape(name)}(?!\w)", text, re.IGNORECASE))


def _barred(connection: duckdb.DuckDBPyConnection) -> set[str]:
    """Return all names that a statement must not use."""
    known = connection.execute(
        "SELECT DISTINCT lower(function_name) FROM duckdb_functions() "
        "WHERE function_type IN ('table', 'table_macro')"
    ).fetchall()
    return {name for (name,) in known} - _MAY_CALL | _BARRED


def _tree(connection: duckdb.DuckDBPyConnection, query: str) -> Any:
    """Return the syntax tree of a query from DuckDB's own parser; None if it cannot be had."""
    if not query:
        return None
    row = connection.execute("SELECT json_serialize_sql(?::varchar)", [query]).fetchone()
    return json.loads(row[0]).get("statements") or None if row else None


def _named(tree: Any, barred: set[str]) -> Iterator[str]:
    """Yield the barred names in a query: table functions, views of them, the catalog."""
    for node in _nodes(tree):
        if node.get("type") == "TABLE_FUNCTION":
            name = str(node.get("function", {}).get("function_name", "")).lower()
            if name not in _MAY_CALL:
                yield name
        elif node.get("type") == "BASE_TABLE":
            names = [str(node.get(part, "")).lower() for part in _PARTS]
            yield from (name for name in names if name in barred)


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    """Yield every object of a tree, without recursion: a query may be nested deeply."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            yield node
            waiting += node.values()
        elif isinstance(node, list):
            waiting += node


def _refused(what: str) -> UsageError:
    return UsageError(f"This statement is refused: {what} is not allowed here.", remedy=REMEDY)
