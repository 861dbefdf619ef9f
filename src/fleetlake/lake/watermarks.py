"""What a stream has read: proven intervals per partition, and its newest event."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

import pyarrow as pa

from fleetlake.endpoint import Endpoint
from fleetlake.intervals import Interval, coalesce, subtract
from fleetlake.lake.locks import commit_lock

if TYPE_CHECKING:
    from fleetlake.lake.catalog import Lake

WHOLE_STREAM = ""
"""Partition of a stream that is not fanned out."""


def proven_intervals(lake: "Lake", profile: str, endpoint: Endpoint) -> dict[str, list[Interval]]:
    """Return the ranges proven complete by partition, oldest first."""
    proven: dict[str, list[Interval]] = {}
    for partition, start, end in lake.rows(
        "select partition, start_at, end_at from meta.intervals "
        "where account_profile = ? and endpoint = ? order by start_at",
        [profile, endpoint.name],
    ):
        proven.setdefault(partition, []).append(Interval(start, end))
    return proven


def watermark(lake: "Lake", profile: str, endpoint: Endpoint) -> datetime | None:
    """Return the newest event time committed, or None before the first load."""
    rows = lake.rows(
        "select watermark_at from meta.watermarks where account_profile = ? and endpoint = ?",
        [profile, endpoint.name],
    )
    return rows[0][0] if rows else None


def add_intervals(
    lake: "Lake", profile: str, endpoint: Endpoint, added: Mapping[str, Iterable[Interval]]
) -> None:
    """Join newly proven ranges to those of their partitions, within the open transaction."""
    known = proven_intervals(lake, profile, endpoint)
    rows = [
        (partition, interval.start, interval.end)
        for partition, intervals in added.items()
        for interval in coalesce([*known.get(partition, ()), *intervals])
    ]
    instant = pa.timestamp("us", tz="UTC")
    schema = pa.schema([("partition", pa.string()), ("start_at", instant), ("end_at", instant)])
    columns = [list(column) for column in zip(*rows, strict=True)] or [[], [], []]
    with lake.view("joined", pa.table(columns, schema=schema)):
        lake.execute(
            "delete from meta.intervals where account_profile = ? and endpoint = ? "
            "and partition in (select partition from joined)",
            [profile, endpoint.name],
        )
        lake.execute(
            "insert into meta.intervals select ?, ?, partition, start_at, end_at from joined",
            [profile, endpoint.name],
        )


def forget_interval(lake: "Lake", profile: str, endpoint: Endpoint, interval: Interval) -> None:
    """Take a range as not proven for any partition, so that it is read again."""
    known = proven_intervals(lake, profile, endpoint)
    left = {
        partition: [part for whole in intervals for part in subtract(whole, [interval])]
        for partition, intervals in known.items()
    }
    with commit_lock(lake.path):
        lake.execute("begin")
        try:
            lake.execute(
                "delete from meta.intervals where account_profile = ? and endpoint = ?",
                [profile, endpoint.name],
            )
            add_intervals(lake, profile, endpoint, left)
            lake.execute("commit")
        except BaseException:
            lake.roll_back()
            raise


@dataclass(frozen=True)
class LastRead:
    """What the last load left to be read again, and when a load last read a whole day again."""

    unsettled: Interval | None
    swept_at: datetime | None


@dataclass(frozen=True, kw_only=True)
class Mark:
    """How far a load brought its stream.

    `newest` is the newest event time; `load_id` is None where the load brought no row.
    `unsettled` and `swept_at` are there once the load has read all that it set out to.
    """

    profile: str
    endpoint: str
    newest: datetime | None
    load_id: str | None = None
    unsettled: Interval | None = None
    swept_at: datetime | None = None


def set_watermarks(lake: "Lake", marks: Sequence[Mark]) -> None:
    """Move the streams' watermarks forward, never back, within the open transaction."""
    unsettled = [mark.unsettled for mark in marks]
    instants = {
        "watermark_at": [mark.newest for mark in marks],
        "final_until": [tail and tail.start for tail in unsettled],
        "read_until": [tail and tail.end for tail in unsettled],
        "swept_at": [mark.swept_at for mark in marks],
    }
    members = {
        "account_profile": [mark.profile for mark in marks],
        "endpoint": [mark.endpoint for mark in marks],
        "load_id": pa.array([mark.load_id for mark in marks], pa.string()),
        **{name: pa.array(at, pa.timestamp("us", tz="UTC")) for name, at in instants.items()},
    }
    newest = ", ".join(f"max({name}) as {name}" for name in ("load_id", *instants))
    with lake.view("marks", pa.table(members)):
        lake.execute(
            "update meta.watermarks w set updated_at = now(), "
            "watermark_at = greatest(w.watermark_at, m.watermark_at), "
            "load_id = coalesce(m.load_id, w.load_id), "
            "final_until = coalesce(m.final_until, w.final_until), "
            "read_until = coalesce(m.read_until, w.read_until), "
            "swept_at = coalesce(m.swept_at, w.swept_at) "
            f"from (select account_profile, endpoint, {newest} from marks group by all) m "
            "where w.account_profile = m.account_profile and w.endpoint = m.endpoint"
        )
        lake.execute(
            f"insert into meta.watermarks by name select account_profile, endpoint, {newest}, "
            "now() as updated_at from marks m where not exists (select 1 from meta.watermarks w "
            "where w.account_profile = m.account_profile and w.endpoint = m.endpoint) group by all"
        )


def last_read(lake: "Lake", profile: str, endpoint: Endpoint) -> LastRead:
    """Return what the last load of a stream that ended well has read."""
    found = lake.rows(
        "select final_until, read_until, swept_at from meta.watermarks "
        "where account_profile = ? and endpoint = ?",
        [profile, endpoint.name],
    )
    final, read, swept_at = found[0] if found else (None, None, None)
    return LastRead(Interval(final, read) if final and read else None, swept_at)
