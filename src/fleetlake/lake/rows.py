"""How rows get into a raw table, by the endpoint's mode; misfits and drift beside them.

All of it within the transaction that a commit has opened.

Several accounts may see one record, and not the same of it. It is kept once, as the account that
read it first sees it: else each load in turn would make it another. A record that its account
no longer sees, or has not read for `RESTS_DAYS`, goes to the next account that reads it.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa

from fleetlake.endpoint import Endpoint, Mode
from fleetlake.lake.loads import Committed, Load, bounds_of
from fleetlake.normalise import EXTRA
from fleetlake.values import json_text

if TYPE_CHECKING:
    from fleetlake.lake.catalog import Lake

EXAMPLE_CHARACTERS = 1_000

RESTS_DAYS = 2
"""Longer than from one daily load to the next, however long they take."""


def write_rows(lake: "Lake", load: Load) -> Committed:
    """Write a load's rows and misfits within the open transaction; return what they changed."""
    rows = load.rows
    if not (rows.num_rows or load.misfits or load.is_whole):
        return Committed(0, 0, 0)
    if load.endpoint.mode is not Mode.APPEND:
        rows = rows.append_column("_row", pa.array(range(rows.num_rows), pa.int64()))
    with lake.view("batch", rows):
        write = {Mode.APPEND: _append, Mode.UPSERT: _upsert, Mode.HISTORY: _version}
        added, changed = write[load.endpoint.mode](lake, load)
    quarantined = _quarantine(lake, load)
    _note_drift(lake, load)
    return Committed(added, changed, quarantined)


def _append(lake: "Lake", load: Load) -> tuple[int, int]:
    """Insert the records that the table does not hold; their time bounds spare its old files."""
    endpoint = load.endpoint
    if load.rows.num_rows == 0:
        return 0, 0
    first, last = bounds_of(load.rows[endpoint.event_time])
    [(added,)] = lake.rows(
        f"insert into raw.{endpoint.name} by name "
        f"select *, {_PROVENANCE} from ({_once(endpoint)}) anti join ("
        f"select {_listed(endpoint.key)} from raw.{endpoint.name} "
        f'where "{endpoint.event_time}" between ? and ?) using ({_listed(endpoint.key)})',
        [load.profile, load.load_id, first, last],
    )
    return added, 0


def _upsert(lake: "Lake", load: Load) -> tuple[int, int]:
    """Insert new records and overwrite those whose content changed."""
    endpoint, table = load.endpoint, f"raw.{load.endpoint.name}"
    sets = ", ".join(f'"{c.name}" = b."{c.name}"' for c in endpoint.columns)
    [(changed,)] = lake.rows(
        f"update {table} t set {sets}, _extra = b._extra, account_profile = ?, "
        f"_load_id = ?, _loaded_at = now() from ({_once(endpoint)}) b "
        f"where {_same_key(endpoint)} and {_differs(endpoint)} and {_is_no_others(endpoint)}",
        [load.profile, load.load_id, load.profile],
    )
    return _insert_unknown(lake, load, "", "", []), changed


def _version(lake: "Lake", load: Load) -> tuple[int, int]:
    """Close the versions whose content changed or whose record has gone; insert the new ones."""
    endpoint, table = load.endpoint, f"raw.{load.endpoint.name}"
    [(changed,)] = lake.rows(
        f"update {table} t set valid_to = ? from ({_once(endpoint)}) b "
        f"where t.valid_to is null and {_same_key(endpoint)} and {_differs(endpoint)} "
        f"and {_is_no_others(endpoint)}",
        [load.seen_at, load.profile],
    )
    if load.is_whole:
        [(gone,)] = lake.rows(
            f"update {table} t set valid_to = ? where valid_to is null "
            f"and account_profile = ? and not exists "
            f"(select 1 from batch b where {_same_key(endpoint)})",
            [load.seen_at, load.profile],
        )
        changed += gone
    added = _insert_unknown(
        lake, load, "where valid_to is null", ", ?::timestamptz as valid_from", [load.seen_at]
    )
    return added, changed


def _insert_unknown(
    lake: "Lake", load: Load, known: str, more: str, parameters: list[object]
) -> int:
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


def _once(endpoint: Endpoint) -> str:
    """Return the batch with each key once: pages may overlap while records are being added.

    Where a record may change between two readings of it, the last reading counts.
    """
    key = _listed(endpoint.key)
    if endpoint.mode is Mode.APPEND:
        return f"select distinct on ({key}) * from batch"
    return f"select distinct on ({key}) * exclude _row from batch order by {key}, _row desc"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def _same_key(endpoint: Endpoint) -> str:
    return " and ".join(f't."{name}" = b."{name}"' for name in endpoint.key)


def _differs(endpoint: Endpoint) -> str:
    names = [*endpoint.tracked, "_extra"]
    left, right = (", ".join(f'{side}."{name}"' for name in names) for side in "tb")
    return f"row({left}) is distinct from row({right})"


def _is_no_others(endpoint: Endpoint) -> str:
    """Return whether a row's account is the one that reads now, or no longer reads itself."""
    return (
        "t.account_profile not in (select account_profile from meta.watermarks "
        f"where endpoint = '{endpoint.name}' and account_profile <> ? "
        f"and updated_at > now() - interval {RESTS_DAYS} days)"
    )


def _quarantine(lake: "Lake", load: Load) -> int:
    """Keep the misfits; one that was met before is not kept again."""
    if not load.misfits:
        return 0
    members = {
        "reason": [misfit.reason for misfit in load.misfits],
        "raw": [misfit.raw for misfit in load.misfits],
        "partition": [misfit.partition for misfit in load.misfits],
    }
    with lake.view("misfits", pa.table(members)):
        [(added,)] = lake.rows(
            "insert into meta.quarantine by name select ? as account_profile, ? as endpoint, "
            "any_value(reason) as reason, raw, ? as load_id, now() as quarantined_at, partition "
            "from misfits where not exists (select 1 from meta.quarantine q "
            "where q.endpoint = ? and q.raw = misfits.raw and q.partition = misfits.partition) "
            "group by raw, partition",
            [load.profile, load.endpoint.name, load.load_id, load.endpoint.name],
        )
    return int(added)


def _note_drift(lake: "Lake", load: Load) -> None:
    """Keep the first sight of every member that has no column, with an example."""
    if load.rows[EXTRA].null_count == load.rows.num_rows:
        return
    # Not json_each: it repeats a record's whole text for each of its members.
    examples: dict[str, str] = {}
    for text in filter(None, load.rows[EXTRA].to_pylist()):
        for member, value in msgspec.json.decode(text).items():
            if member not in examples:
                examples[member] = json_text(value)[:EXAMPLE_CHARACTERS]
    members = {"member": [*examples], "example": [*examples.values()]}
    with lake.view("members", pa.table(members)):
        lake.execute(
            "insert into meta.schema_drift by name select ? as account_profile, "
            "? as endpoint, member, example, ? as load_id, now() as first_seen_at "
            "from members where not exists (select 1 from meta.schema_drift d "
            "where d.endpoint = ? and d.member = members.member)",
            [load.profile, load.endpoint.name, load.load_id, load.endpoint.name],
        )
