"""Recording the calls of a run, and the endpoints that an account may not read."""

from collections.abc import Mapping
from datetime import datetime

import pyarrow as pa

from fleetlake.lake.connection import Lake


def record_calls(
    lake: Lake, calls: Mapping[str, int], *, run_id: str, profile: str, started_at: datetime
) -> None:
    """Record the calls per endpoint, retries included, in the open transaction."""
    members = {
        "run_id": [run_id] * len(calls),
        "account_profile": [profile] * len(calls),
        "endpoint": list(calls.keys()),
        "calls": list(calls.values()),
        "started_at": [started_at] * len(calls),
    }
    with lake.view("calls_made", pa.table(members)):
        lake.execute(
            "insert into meta.calls by name select *, now() as finished_at from calls_made"
        )


def record_capabilities(lake: Lake, refusals: Mapping[str, str | None], *, profile: str) -> None:
    """Record which endpoints an account may read: the reason for a refusal, or None if it may.

    Writes only changes, in the open transaction.
    """
    known = dict(
        lake.rows(
            "select endpoint, is_available from meta.capabilities where account_profile = ?",
            [profile],
        )
    )
    for endpoint, reason in refusals.items():
        is_available = reason is None
        if known.get(endpoint, True) == is_available:
            continue
        lake.execute(
            "delete from meta.capabilities where account_profile = ? and endpoint = ?",
            [profile, endpoint],
        )
        lake.execute(
            "insert into meta.capabilities (account_profile, endpoint, is_available, reason, "
            "checked_at) values (?, ?, ?, ?, now())",
            [profile, endpoint, is_available, reason],
        )
