"""Writing a load's rows to a raw table in the endpoint's mode, its rejected records and its drift.

Everything happens in the transaction that a commit has opened.

Several accounts may see the same record with different content. The lake stores it once, with the
content that the first account to read it sees. Otherwise each account's load would change it again.
If that account no longer sees the record, or has not loaded the endpoint for `RESTS_DAYS`, the
record passes to the next account that reads it.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

import pyarrow as pa

from fleetlake.endpoints.model import Endpoint, Mode
from fleetlake.lake.connection import Lake
from fleetlake.lake.equal_json import as_stored
from fleetlake.lake.evolution.drift import note_drift
from fleetlake.lake.evolution.new_columns import fill_never_held, take_from_extra
from fleetlake.lake.known_keys import ANOTHER_SPELLING, KnownKeys
from fleetlake.lake.loads import Committed, Load, bounds_of
from fleetlake.lake.shrunken_lists import MissingRecords, end_versions, judge_missing
from fleetlake.lake.suppression import without_suppressed
from fleetlake.text.quoting import literal, quoted

RESTS_DAYS = 2
"""Longer than the time between two daily loads, even slow ones."""


def write_rows(lake: Lake, load: Load, keys: KnownKeys) -> Committed:
    """Write a load's rows and rejected records in the open transaction; return what changed."""
    if load.rows.num_rows or load.rejects:
        load = without_suppressed(lake, load)
    rows = load.rows
    if not (rows.num_rows or load.rejects or load.is_whole):
        return Committed(0, 0, 0)
    filled = 0
    if load.endpoint.mode is Mode.APPEND:
        done = _append(lake, load, keys)
    else:
        filled = take_from_extra(lake, load)
        rows = rows.append_column("_row", pa.array(range(rows.num_rows), pa.int64()))
        with lake.view("batch", rows):
            rows = as_stored(lake, load.endpoint, rows)
        with lake.view("batch", rows):
            done = {Mode.UPSERT: _upsert, Mode.HISTORY: _version}[load.endpoint.mode](lake, load)
    quarantined = _quarantine(lake, load)
    note_drift(lake, load)
    return replace(done, quarantined=quarantined, is_noted=done.is_noted or bool(filled))


def _append(lake: Lake, load: Load, keys: KnownKeys) -> Committed:
    """Insert the records that the table lacks; it is searched only for doubtful ones."""
    endpoint, rows = load.endpoint, load.rows
    if rows.num_rows == 0:
        return Committed(0, 0, 0)
    doubts = keys.doubts(lake, endpoint, rows)
    if doubts is None:
        chosen, limits = _lacking(endpoint, _once(endpoint), bounds_of(rows[endpoint.event_time]))
    elif not doubts.mask.any():
        chosen, limits = "select * from batch", []
    else:
        rows = rows.append_column("_is_new", pa.array(~doubts.mask))
        doubtful = f"select * exclude _is_new from ({_once(endpoint, 'where not _is_new')})"
        limits = []
        if doubts.bounds:
            doubtful, limits = _lacking(endpoint, doubtful, doubts.bounds)
        new = "select * exclude _is_new from batch where _is_new"
        chosen = f"{new} union all by name {doubtful}"
    with lake.view("batch", rows):
        [(added,)] = lake.rows(
            f"insert into raw.{endpoint.name} by name select *, {_PROVENANCE} from ({chosen})",
            [load.profile, load.load_id, *limits],
        )
    return Committed(added, 0, 0)


def _lacking(
    endpoint: Endpoint, rows: str, bounds: tuple[datetime, datetime]
) -> tuple[str, list[datetime]]:
    """Return SQL for those of the rows that the table lacks, and its parameters.

    The rows' time range limits the files to compare.
    """
    known, limits = "", []
    if endpoint.is_requested:  # a push may get its time only when it arrives, each time another
        known = f"where {quoted(str(endpoint.event_time))} between ? and ?"
        limits = [bounds[0] - ANOTHER_SPELLING, bounds[1] + ANOTHER_SPELLING]
    key = _listed(endpoint.key)
    lacking = f"anti join (select {key} from raw.{endpoint.name} {known}) using ({key})"
    return f"select * from ({rows}) {lacking}", limits


def _upsert(lake: Lake, load: Load) -> Committed:
    """Insert new records and overwrite those with changed content."""
    endpoint, table = load.endpoint, f"raw.{load.endpoint.name}"
    sets = ", ".join(f"{quoted(c.name)} = b.{quoted(c.name)}" for c in endpoint.columns)
    [(changed,)] = lake.rows(
        f"update {table} t set {sets}, _extra = b._extra, account_profile = ?, "
        f"_load_id = ?, _loaded_at = now() from ({_once(endpoint)}) b "
        f"where {_same_key(endpoint)} and {_differs(endpoint)} and {_is_no_others(endpoint)}",
        [load.profile, load.load_id, load.profile],
    )
    return Committed(_insert_unknown(lake, load, "", "", []), changed, 0)


def _version(lake: Lake, load: Load) -> Committed:
    """Close the versions of changed and missing records; insert the new versions."""
    endpoint, table = load.endpoint, f"raw.{load.endpoint.name}"
    absence = judge_missing(lake, load) if load.is_whole else MissingRecords()
    filled = fill_never_held(lake, load, _is_no_others(endpoint))
    [(changed,)] = lake.rows(
        f"update {table} t set valid_to = greatest(?, t.valid_from) from ({_once(endpoint)}) b "
        f"where t.valid_to is null and {_same_key(endpoint)} and {_differs(endpoint)} "
        f"and {_is_no_others(endpoint)}",
        [load.seen_at, load.profile],
    )
    changed += end_versions(lake, load, absence.ended)
    added = _insert_unknown(
        lake, load, "where valid_to is null", ", ?::timestamptz as valid_from", [load.seen_at]
    )
    return Committed(
        added,
        changed,
        0,
        unconfirmed=len(absence.unconfirmed),
        held=absence.held,
        is_noted=absence.is_noted or bool(filled),
    )


def _insert_unknown(lake: Lake, load: Load, known: str, more: str, parameters: list[object]) -> int:
    endpoint = load.endpoint
    [(added,)] = lake.rows(
        f"insert into raw.{endpoint.name} by name "
        f"select *, {_PROVENANCE}{more} from ({_once(endpoint)}) anti join ("
        f"select {_listed(endpoint.key)} from raw.{endpoint.name} {known}) "
        f"using ({_listed(endpoint.key)})",
        [load.profile, load.load_id, *parameters],
    )
    return int(added)


_PROVENANCE = "?::varchar as account_profile, ?::varchar as _load_id, now() as _loaded_at"


def _once(endpoint: Endpoint, chosen: str = "") -> str:
    """Return SQL for the batch with each key once: pages may overlap while records are added.

    If a record may change between two readings, the last one is used.
    """
    key = _listed(endpoint.key)
    if endpoint.mode is Mode.APPEND:
        return f"select distinct on ({key}) * from batch {chosen}"
    return f"select distinct on ({key}) * exclude _row from batch order by {key}, _row desc"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(quoted, names))


def _same_key(endpoint: Endpoint) -> str:
    return " and ".join(f"t.{quoted(name)} = b.{quoted(name)}" for name in endpoint.key)


def _differs(endpoint: Endpoint) -> str:
    names = [*endpoint.tracked, "_extra"]
    left, right = (", ".join(f"{side}.{quoted(name)}" for name in names) for side in "tb")
    return f"row({left}) is distinct from row({right})"


def _is_no_others(endpoint: Endpoint) -> str:
    """Return the SQL condition that the reading account may overwrite a row.

    It may if it owns the row, if the owner no longer loads the endpoint, or if the record is
    missing from the owner's list and the loss is unconfirmed.
    """
    key = ", ".join(f"t.{quoted(name)}" for name in endpoint.key)
    unconfirmed = (
        "(t.account_profile, json_array(" + key + ")::varchar) in (select (account_profile, "
        f"record_key) from meta.absent where endpoint = {literal(endpoint.name)})"
    )
    return f"({unconfirmed} or {_is_at_rest(endpoint)})"


def _is_at_rest(endpoint: Endpoint) -> str:
    return (
        "t.account_profile not in (select account_profile from meta.watermarks "
        f"where endpoint = {literal(endpoint.name)} and account_profile <> ? "
        f"and updated_at > now() - interval {RESTS_DAYS} days)"
    )


def _quarantine(lake: Lake, load: Load) -> int:
    """Quarantine the rejected records that are not in quarantine yet."""
    if not load.rejects:
        return 0
    members = {
        "reason": [reject.reason for reject in load.rejects],
        "raw": [reject.raw for reject in load.rejects],
        "partition": [reject.partition for reject in load.rejects],
    }
    with lake.view("rejects", pa.table(members)):
        [(added,)] = lake.rows(
            "insert into meta.quarantine by name select ? as account_profile, ? as endpoint, "
            "any_value(reason) as reason, raw, ? as load_id, now() as quarantined_at, partition "
            "from rejects where not exists (select 1 from meta.quarantine q "
            "where q.endpoint = ? and q.raw = rejects.raw and q.partition = rejects.partition) "
            "group by raw, partition",
            [load.profile, load.endpoint.name, load.load_id, load.endpoint.name],
        )
    return int(added)
