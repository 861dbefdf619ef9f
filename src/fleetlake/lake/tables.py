"""The lake's tables: one raw table per endpoint, and the tables about loads.

Opening a lake adds tables and columns that are new in the endpoint table. Nothing is ever
dropped.
"""

from fleetlake.endpoints import ENDPOINTS
from fleetlake.endpoints.columns import Column
from fleetlake.endpoints.model import Endpoint, Mode
from fleetlake.lake.connection import Lake
from fleetlake.lake.ducklake import add_statistics, columns_in
from fleetlake.lake.evolution.format import note_format
from fleetlake.text.quoting import quoted

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

_TIME = "TIMESTAMP WITH TIME ZONE"
META: dict[str, dict[str, str]] = {
    # One row per stream: the newest event time committed, and by which load. Of a list also a
    # digest of what was read, and the snapshot that is known to hold it.
    "watermarks": {
        "account_profile": "VARCHAR",
        "endpoint": "VARCHAR",
        "watermark_at": _TIME,
        "load_id": "VARCHAR",
        "updated_at": _TIME,
        "list_digest": "VARCHAR",
        "list_snapshot": "BIGINT",
    },
    # One row per stream and shard ('1/1' is the whole stream): its last finished load, proven
    # up to `final_until` and read up to `read_until`; and its last sweep, which requested every
    # id and read the last day again.
    "reads": {
        "account_profile": "VARCHAR",
        "endpoint": "VARCHAR",
        "shard": "VARCHAR",
        "final_until": _TIME,
        "read_until": _TIME,
        "swept_at": _TIME,
        "wanted_from": _TIME,  # nothing before it is requested; null: no limit
        "finished_at": _TIME,  # when it ended, by the loading machine's clock
    },
    # Maximum lateness of a load's records; 0 is on time.
    "lateness": {
        "account_profile": "VARCHAR",
        "endpoint": "VARCHAR",
        "load_id": "VARCHAR",
        "lateness_seconds": "BIGINT",
        "records": "BIGINT",
        "measured_at": _TIME,
    },
    # One row per commit. A load id in this table was committed, even if the client saw an error.
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
    # Ranges that the service deleted before they were read.
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
    # Records that cannot be stored in a raw table, as received.
    "quarantine": {
        "account_profile": "VARCHAR",
        "endpoint": "VARCHAR",
        "reason": "VARCHAR",
        "raw": "VARCHAR",
        "load_id": "VARCHAR",
        "quarantined_at": _TIME,
        "partition": "VARCHAR",
        "resolved_at": _TIME,
        "last_seen_at": _TIME,
        "times_seen": "BIGINT",  # loads that received it; null in rows of earlier releases
    },
    # Members without a column, or with a changed type, when first seen.
    "schema_drift": {
        "account_profile": "VARCHAR",
        "endpoint": "VARCHAR",
        "member": "VARCHAR",
        "example": "VARCHAR",
        "load_id": "VARCHAR",
        "first_seen_at": _TIME,
    },
    # Members that became columns of this lake: kind and column name.
    "promoted": {
        "endpoint": "VARCHAR",
        "member": "VARCHAR",
        "kind": "VARCHAR",
        "promoted_at": _TIME,
        "column_name": "VARCHAR",
    },
    # Columns of the endpoint table that this lake stores in another kind; the last row counts.
    "retyped": {
        "endpoint": "VARCHAR",
        "member": "VARCHAR",
        "kind": "VARCHAR",
        "retyped_at": _TIME,
    },
    # Whether an account may read an endpoint (403, 404 and 405 mean no), as of the last request.
    "capabilities": {
        "account_profile": "VARCHAR",
        "endpoint": "VARCHAR",
        "is_available": "BOOLEAN",
        "reason": "VARCHAR",
        "checked_at": _TIME,
    },
    # Records missing from their list whose versions stay open, because the list shrank too much.
    "absent": {
        "account_profile": "VARCHAR",
        "endpoint": "VARCHAR",
        "record_key": "VARCHAR",  # the values of the key, as a JSON list
        "absent_since": _TIME,
    },
    # Definitions of the raw tables' columns; `added_at` is set for a column added later.
    "columns": {
        "endpoint": "VARCHAR",
        "member": "VARCHAR",
        "kind": "VARCHAR",
        "is_tracked": "BOOLEAN",
        "added_at": _TIME,
    },
    # One row: the format of the lake, which a release must support to read or write the lake, and
    # the newest release that has written to it.
    "lake": {
        "format_version": "BIGINT",
        "noted_at": _TIME,
        "release": "VARCHAR",
    },
    # What was found, repaired or removed on purpose, and by whom. Nothing ever deletes from it.
    "events": {
        "happened_at": _TIME,
        "kind": "VARCHAR",  # see fleetlake.lake.audit_trail
        "actor": "VARCHAR",  # user@machine
        "account_profile": "VARCHAR",  # null: all accounts
        "endpoint": "VARCHAR",  # or the name of another table; null: the whole lake
        "rows": "BIGINT",
        "summary": "VARCHAR",
        "details": "JSON",
    },
    # What people did about findings, which are rows of the mart `attention`, and what was known
    # then: see fleetlake.marts.findings.
    "findings": {
        "finding_id": "VARCHAR",
        "step": "VARCHAR",
        "made_at": _TIME,
        "actor": "VARCHAR",
        "seen_at": _TIME,  # the data went up to here
        "severity_rank": "BIGINT",
        "router_id": "BIGINT",
        "net_device_id": "BIGINT",
        "until_at": _TIME,
        "assignee": "VARCHAR",
        "comment": "VARCHAR",
    },
    # What the places of `[notify]` were told: see fleetlake.notifying.untold.
    "messages": {
        "destination": "VARCHAR",
        "message_id": "VARCHAR",
        "finding_id": "VARCHAR",
        "router_id": "BIGINT",
        "seen_at": _TIME,  # the data went up to here
        "is_told": "BOOLEAN",  # false for a device within an outage that is told
        "recorded_at": _TIME,
        "sent_at": _TIME,
    },
    # Checksums of the lake's own files; see fleetlake.care.integrity.checksums.
    "files": {
        "name": "VARCHAR",  # relative to the lake's folder of files
        "size_bytes": "BIGINT",
        "sha256": "VARCHAR",
        "checked_at": _TIME,
    },
    # The days that rows of a raw table stay; older ones than `kept_from` are not written again.
    "retention": {
        "endpoint": "VARCHAR",
        "days": "BIGINT",
        "kept_from": _TIME,
    },
    # What was erased, as keyed digests: see fleetlake.lake.tombstones.
    "tombstones": {
        "kind": "VARCHAR",
        "digest": "VARCHAR",
        "erased_at": _TIME,
    },
    # One row: the key of the digests.
    "tombstone_key": {
        "key": "VARCHAR",
    },
    # Pushed records and the polled ones that confirm them: see fleetlake.lake.confirmation.
    "confirmations": {
        "push_id": "VARCHAR",
        "alert_id": "VARCHAR",  # the key of the polled record
        "alerted_at": _TIME,  # the push's, to find confirmations by time
        "confirmed_at": _TIME,
    },
    # How far each journal of pushed messages is committed: the number of a message, in `offset`.
    # Builds before 2026-11-25 wrote a segment and the bytes of it; `segment` is 0 now. `folder` is
    # where the journal was: see fleetlake.receiving.journal_table.
    "journal_positions": {
        "journal_id": "VARCHAR",
        "segment": "BIGINT",
        "offset": "BIGINT",
        "committed_at": _TIME,
        "folder": "VARCHAR",
    },
    # How far alerts were announced to Prefect: see fleetlake.alerting.new_alerts.
    "announced": {
        "endpoint": "VARCHAR",
        "row_number": "BIGINT",
        "announced_at": _TIME,
    },
    # The snapshot that each export of a table has reached, from which the next one continues.
    "exports": {
        "target": "VARCHAR",
        "table_name": "VARCHAR",
        "snapshot_id": "BIGINT",
        "exported_at": _TIME,
    },
    # Requests made, retries included, per run and endpoint.
    "calls": {
        "run_id": "VARCHAR",
        "account_profile": "VARCHAR",
        "endpoint": "VARCHAR",
        "calls": "BIGINT",
        "started_at": _TIME,
        "finished_at": _TIME,
        "refusals": "BIGINT",  # responses that the call limit was exceeded
        "retries": "BIGINT",  # requests sent again after an error
        "spared": "BIGINT",  # requests not made because pushes bring the records
    },
    # Builds of the marts that computed something, failed ones too.
    "builds": {
        "built_at": _TIME,
        "seconds": "DOUBLE",
        "is_good": "BOOLEAN",
        "is_full": "BOOLEAN",
        "models": "BIGINT",
        "failed_tests": "BIGINT",
        "warned_tests": "BIGINT",
    },
    # Marts that keep their last good rows because their build has failed since.
    "stale_marts": {
        "mart": "VARCHAR",
        "since_at": _TIME,
    },
}


def raw_columns(endpoint: Endpoint) -> dict[str, str]:
    """Return the columns of an endpoint's raw table with their SQL types."""
    own = {column.name: column.sql_type for column in endpoint.columns}
    return own | PROVENANCE | (VERSIONS if endpoint.mode is Mode.HISTORY else {})


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
    chosen = {name for (name,) in lake.rows("select option_name from lake.options()")}
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
    present: _Present = {}
    for schema in ("raw", "meta"):
        for table, column in columns_in(lake, schema):
            present.setdefault((schema, table), set()).add(column)
    return present


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
