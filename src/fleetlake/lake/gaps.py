"""Ranges that the service deleted before they were read: recorded, and open until acknowledged."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from fleetlake.endpoints.model import Endpoint
from fleetlake.lake.audit_trail import EventKind
from fleetlake.lake.connection import Lake
from fleetlake.lake.locks import commit_lock
from fleetlake.planning.coverage import before
from fleetlake.planning.intervals import Interval, subtract


@dataclass(frozen=True, kw_only=True)
class Gap:
    """A lost range, half-open, in UTC; `acknowledged_at` is set once a person has confirmed it."""

    account_profile: str
    endpoint: str
    partition: str
    start_at: datetime
    end_at: datetime
    reason: str
    recorded_at: datetime
    acknowledged_at: datetime | None


def record_gaps(
    lake: Lake,
    profile: str,
    endpoint: Endpoint,
    expired: Mapping[str, Sequence[Interval]],
    first: Mapping[str, datetime],
) -> int:
    """Record the lost parts of expired ranges after reading them; return the number of gaps.

    A range is lost up to the `first` record that the service still returned for its partition.
    The same transaction marks the ranges as proven, because nothing is left to read in them.
    """
    if not expired:
        return 0
    from fleetlake.lake.watermarks import add_intervals  # noqa: PLC0415 - readers need it not

    days = endpoint.retention.days if endpoint.retention else 0
    keeps = f"the service keeps {endpoint.name} for {days} days"
    forgotten = forgotten_ranges(lake, endpoint)
    count = 0
    with commit_lock(lake.path), lake.transaction():
        for partition, intervals in expired.items():
            for lost in before(first.get(partition, intervals[-1].end), intervals):
                is_forgotten = subtract(lost, forgotten) != [lost]
                why = "its file was lost" if is_forgotten else "not read in time"
                add_gap(lake, profile, endpoint, lost, f"{keeps}; {why}", partition=partition)
                count += 1
        add_intervals(lake, profile, endpoint, expired)
    return count


def add_gap(
    lake: Lake, profile: str, endpoint: Endpoint, lost: Interval, reason: str, *, partition: str
) -> None:
    """Record one lost range in the open transaction."""
    lake.execute(
        "insert into meta.gaps (account_profile, endpoint, partition, start_at, end_at, reason, "
        "recorded_at) values (?, ?, ?, ?, ?, ?, now())",
        [profile, endpoint.name, partition, lost.start, lost.end, reason],
    )


def forgotten_ranges(lake: Lake, endpoint: Endpoint) -> list[Interval]:
    """Return the ranges whose rows were in lost files, as repairs have recorded them."""
    found = lake.rows(
        "select details->'ranges' from meta.events where kind = ? and endpoint = ?",
        [EventKind.REPAIR, endpoint.name],
    )
    return [
        Interval(*map(datetime.fromisoformat, one)) for (text,) in found for one in json.loads(text)
    ]


def gaps(lake: Lake, *, only_open: bool = False) -> list[Gap]:
    """Return the recorded gaps, oldest first; `only_open` leaves out acknowledged ones."""
    where = "where acknowledged_at is null" if only_open else ""
    found = lake.named_rows(
        "select account_profile, endpoint, partition, start_at, end_at, reason, recorded_at, "
        f"acknowledged_at from meta.gaps {where} order by start_at, endpoint"
    )
    return [Gap(**row) for row in found]


def acknowledge_gaps(lake: Lake) -> int:
    """Mark every open gap as known and return how many there were."""
    with commit_lock(lake.path), lake.transaction():
        return lake.number(
            "update meta.gaps set acknowledged_at = now() where acknowledged_at is null"
        )
