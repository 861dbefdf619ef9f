"""Records that cannot be stored: each one is a row of `meta.quarantine`, however often it comes.

A list is read whole at each load, so a record that does not fit comes again and again, perhaps with
another shard's host in its URLs or with another time. That is the same record: its row says when it
was first and last received, and how many loads received it. Events are read once, so two that
differ by their time are two.

A service can list a placeholder: its id is empty, and a relation leads to ".../None/" (seen in
published samples, 2026-11). It stands for nothing, so no load or person has to wait for it: its row
is resolved from the beginning.
"""

import re
from collections.abc import Sequence

import msgspec
import pyarrow as pa

from fleetlake.decoding.records import RejectedRecord
from fleetlake.endpoints.model import Endpoint, Mode
from fleetlake.lake.connection import Lake

_HOST = r"https?://[^/\"]+"
_TIME = r"\d{4}-\d\d-\d\dT[0-9:.]+(Z|[+-]\d\d:?\d\d)?"
_NOTHING = re.compile(r"/None/?\"")

_REJECTS = (
    "select {same} as same, partition, any_value(reason) as reason, any_value(raw) as raw, "
    "bool_and(is_placeholder) as is_placeholder from rejects group by all"
)


def quarantine(
    lake: Lake, endpoint: Endpoint, profile: str, load_id: str, rejects: Sequence[RejectedRecord]
) -> int:
    """Quarantine the rejected records of a load in the open transaction; return how many are new.

    The rows of those that are in quarantine already get the time and the count of this load.
    """
    if not rejects:
        return 0
    members = {
        "reason": [reject.reason for reject in rejects],
        "raw": [reject.raw for reject in rejects],
        "partition": [reject.partition for reject in rejects],
        "is_placeholder": [is_placeholder(endpoint, reject) for reject in rejects],
    }
    found = _REJECTS.format(same=_same("raw", endpoint))
    matches = (
        f"q.endpoint = ? and {_same('q.raw', endpoint)} = r.same "
        "and coalesce(q.partition, '') = r.partition"
    )
    with lake.view("rejects", pa.table(members)):
        lake.execute(f"create or replace temp table seen_rejects as {found}")
    lake.execute(
        "update meta.quarantine q set last_seen_at = now(), "
        f"times_seen = coalesce(q.times_seen, 1) + 1 from seen_rejects r where {matches}",
        [endpoint.name],
    )
    added = lake.number(
        "insert into meta.quarantine by name select ? as account_profile, ? as endpoint, reason, "
        "raw, ? as load_id, now() as quarantined_at, partition, now() as last_seen_at, "
        "1 as times_seen, case when is_placeholder then now() end as resolved_at "
        f"from seen_rejects r where not exists (select 1 from meta.quarantine q where {matches})",
        [profile, endpoint.name, load_id, endpoint.name],
    )
    lake.execute("drop table temp.seen_rejects")
    return added


def waiting_rejects(lake: Lake, endpoint: Endpoint, rejects: Sequence[RejectedRecord]) -> int:
    """Return the number of rejected records of a list that are neither settled nor placeholders."""
    rejects = [one for one in rejects if not is_placeholder(endpoint, one)]
    if not rejects:
        return 0
    with lake.view("rejects", pa.table({"raw": [reject.raw for reject in rejects]})):
        return lake.number(
            f"select count(*) from rejects r where not exists (select 1 from meta.quarantine q "
            f"where q.endpoint = ? and q.resolved_at is not null "
            f"and {_same('q.raw', endpoint)} = {_same('r.raw', endpoint)})",
            [endpoint.name],
        )


def is_placeholder(endpoint: Endpoint, reject: RejectedRecord) -> bool:
    """Return whether a record of a list has an empty id and a relation to nothing."""
    if endpoint.mode is Mode.APPEND or not _NOTHING.search(reject.raw):
        return False
    try:
        record = msgspec.json.decode(reject.raw)
    except (msgspec.DecodeError, RecursionError):
        return False
    return isinstance(record, dict) and not any(record.get(name) for name in endpoint.key)


def _same(column: str, endpoint: Endpoint) -> str:
    """Return the SQL of what two texts of the same record have in common."""
    text = f"regexp_replace({column}, '{_HOST}', '', 'g')"
    if endpoint.mode is Mode.APPEND:
        return text
    return f"regexp_replace({text}, '{_TIME}', '', 'g')"
