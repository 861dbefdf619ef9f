"""The lake's tables: one raw table per endpoint, and what is known about the loads.

Tables and columns that the endpoint table has gained since are added on opening; nothing is
ever dropped.
"""

from fleetlake.endpoints import ENDPOINTS
from fleetlake.endpoints.columns import Column
from fleetlake.endpoints.model import Endpoint, Mode
from fleetlake.lake.connection import Lake
from fleetlake.lake.evolution.format import note_format
from fleetlake.lake.evolution.gained import fill_gained
from fleetlake.lake.evolution.registry import register_columns
from fleetlake.text.quoting import quoted

SCHEMAS = ("raw", "staging", "marts", "meta")

PROVENANCE = {
    "account_profile": "VARCHAR",  # whose keys read the record
    "_extra": "JSON",  # members that have no column
    "_load_id": "VARCHAR",  # meta.loads: when and how the row came
    "_loaded_at": "TIMESTAMP WITH TIME ZONE",
}
VERSIONS = {
    "valid_from": "TIMESTAMP WITH TIME ZONE",  # included
    "valid_to": "TIMESTAMP WITH TIME ZONE",  # not included; null for the current version
}

_TIME = "TIMESTAMP WITH TIME ZONE"
META: dict[str, dict[str, str]] = {
    # One row per stream: the newest event time committed, and by which load.
    "watermarks": {
        "account_profile": "VARCHAR",
        "endpoint": "VARCHAR",
        "watermark_at": _TIME,
        "load_id": "VARCHAR",
        "updated_at": _TIME,
    },
    # One row per stream and shard ('1/1' is all of it): its last load that ended well, proven
    # up to the one instant and read up to the other; and its last sweep, which asked every id
    # and read the last day again.
    "reads": {
        "account_profile": "VARCHAR",
        "endpoint": "VARCHAR",
        "shard": "VARCHAR",
        "final_until": _TIME,
        "read_until": _TIME,
        "swept_at": _TIME,
        "wanted_from": _TIME,  # nothing before it was asked for; null is the beginning
    },
    # How late the records of a load showed up, at most; 0 is on time.
    "lateness": {
        "account_profile": "VARCHAR",
        "endpoint": "VARCHAR",
        "load_id": "VARCHAR",
        "lateness_seconds": "BIGINT",
        "records": "BIGINT",
        "measured_at": _TIME,
    },
    # One row per commit. A load id that is here took place, whatever the writer got to hear.
    "loads": {
        "load_id": "VARCHAR",
        "run_id": "VARCHAR",
        "account_profile": "VARCHAR",
        "endpoint": "VARCHAR",
        "records": "BIGINT",
        "rows_added": "BIGINT",
        "rows_changed": "BIGINT",
        "quarantined": "BIGINT",
        "committed_at": _TIME,
    },
    # Half-open ranges of event time proven complete; partition is the fan-out's id or ''.
    "intervals": {
        "account_profile": "VARCHAR",
        "endpoint": "VARCHAR",
        "partition": "VARCHAR",
        "start_at": _TIME,
        "end_at": _TIME,
    },
    # Ranges that the service forgot before they were read.
    "gaps": {
        "account_profile": "VARCHAR",
        "endpoint": "VARCHAR",
        "partition": "VARCHAR",
        "start_at": _TIME,
        "end_at": _TIME,
        "reason": "VARCHAR",
        "recorded_at": _TIME,
        "acknowledged_at": _TIME,
    },
    # Records that cannot be kept in a raw table, as they were received.
    "quarantine": {
        "account_profile": "VARCHAR",
        "endpoint": "VARCHAR",
        "reason": "VARCHAR",
        "raw": "VARCHAR",
        "load_id": "VARCHAR",
        "quarantined_at": _TIME,
        "partition": "VARCHAR",
        "resolved_at": _TIME,
    },
    # Members that no column stands for, or whose type changed: at first sight.
    "schema_drift": {
        "account_profile": "VARCHAR",
        "endpoint": "VARCHAR",
        "member": "VARCHAR",
        "example": "VARCHAR",
        "load_id": "VARCHAR",
        "first_seen_at": _TIME,
    },
    # Members that became columns of this lake: of which kind, and under which name.
    "promoted": {
        "endpoint": "VARCHAR",
        "member": "VARCHAR",
        "kind": "VARCHAR",
        "promoted_at": _TIME,
        "column_name": "VARCHAR",
    },
    # Whether an account may read an endpoint (403, 404 and 405 say no), as last asked.
    "capabilities": {
        "account_profile": "VARCHAR",
        "endpoint": "VARCHAR",
        "is_available": "BOOLEAN",
        "reason": "VARCHAR",
        "checked_at": _TIME,
    },
    # Records whose versions stay open though the list no longer holds them: it shrank too much.
    "absent": {
        "account_profile": "VARCHAR",
        "endpoint": "VARCHAR",
        "record_key": "VARCHAR",  # the values of the key, as a JSON list
        "absent_since": _TIME,
    },
    # What the columns of the raw tables are made of; `added_at` where a table got one later.
    "columns": {
        "endpoint": "VARCHAR",
        "member": "VARCHAR",
        "kind": "VARCHAR",
        "is_tracked": "BOOLEAN",
        "added_at": _TIME,
    },
    # One row: the format of the lake, which a release must know to read or write it.
    "lake": {
        "format_version": "BIGINT",
        "noted_at": _TIME,
    },
    # Requests made, retries included, per run and endpoint.
    "calls": {
        "run_id": "VARCHAR",
        "account_profile": "VARCHAR",
        "endpoint": "VARCHAR",
        "calls": "BIGINT",
        "started_at": _TIME,
        "finished_at": _TIME,
    },
}


def raw_columns(endpoint: Endpoint) -> dict[str, str]:
    """Return the columns of an endpoint's raw table with their SQL types."""
    own = {column.name: column.sql_type for column in endpoint.columns}
    return own | PROVENANCE | (VERSIONS if endpoint.mode is Mode.HISTORY else {})


def has_missing(lake: Lake) -> bool:
    """Return whether the endpoint table has gained something that the lake does not have."""
    return bool(_statements(lake))


def create_missing(lake: Lake) -> None:
    """Add the schemas, tables and columns that the lake does not have yet."""
    statements, gained = _statements(lake), _gained(lake)
    if not statements:
        return
    schemas = [f"create schema if not exists {schema}" for schema in SCHEMAS]
    with lake.transaction():
        lake.execute(";\n".join([*schemas, *statements]))
        for endpoint, column in gained:
            fill_gained(lake, endpoint, column)
        register_columns(lake, ENDPOINTS.values(), {(e.name, c.name) for e, c in gained})
        note_format(lake)


def _gained(lake: Lake) -> list[tuple[Endpoint, Column]]:
    """Return the columns of records that tables of the lake do not have yet."""
    present = _present(lake)
    return [
        (endpoint, column)
        for endpoint in ENDPOINTS.values()
        if ("raw", endpoint.name) in present
        for column in endpoint.columns
        if column.name not in present["raw", endpoint.name]
    ]


def _present(lake: Lake) -> dict[tuple[str, str], set[str]]:
    """Return the columns of the lake's own tables, by schema and table."""
    present: dict[tuple[str, str], set[str]] = {}
    for schema, table, column in lake.rows(
        "select schema_name, table_name, column_name from duckdb_columns() "
        "where database_name = 'lake' and schema_name in ('raw', 'meta')"
    ):
        present.setdefault((schema, table), set()).add(column)
    return present


def _statements(lake: Lake) -> list[str]:
    wanted = {("raw", e.name): raw_columns(e) for e in ENDPOINTS.values()}
    wanted |= {("meta", name): columns for name, columns in META.items()}
    present = _present(lake)
    return [
        statement
        for (schema, table), columns in wanted.items()
        for statement in _missing(f"{schema}.{table}", columns, present.get((schema, table)))
    ]


def give_statistics(table: str) -> str:
    """Return statements that leave an empty table as it is, but with statistics.

    Of a table that never had a row DuckLake has none, and asks the catalog for them anew for each
    column of each query: 0.3 s for forty (observed 2026-11-22; mended after DuckLake 1.5.5). A row
    that comes and goes within a transaction leaves nothing but them.
    """
    return f"insert into {table} default values; delete from {table}"


def _missing(table: str, columns: dict[str, str], present: set[str] | None) -> list[str]:
    if present is None:
        listed = ", ".join(f"{quoted(name)} {kind}" for name, kind in columns.items())
        return [f"create table {table} ({listed})", give_statistics(table)]
    return [
        f"alter table {table} add column {quoted(name)} {kind}"
        for name, kind in columns.items()
        if name not in present
    ]
