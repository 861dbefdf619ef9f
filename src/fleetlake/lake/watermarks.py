"""What a stream has read: proven intervals per partition, and its newest event."""

from collections.abc import Iterable, Mapping, Sequence
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


def set_watermark(
    lake: "Lake", profile: str, endpoint: Endpoint, moment: datetime | None, load_id: str
) -> None:
    """Move the stream's watermark forward, never back, within the open transaction."""
    known = lake.rows(
        "update meta.watermarks set watermark_at = greatest(watermark_at, ?), load_id = ?, "
        "updated_at = now() where account_profile = ? and endpoint = ?",
        [moment, load_id, profile, endpoint.name],
    )
    if known[0][0] == 0:
        lake.execute(
            "insert into meta.watermarks values (?, ?, ?, ?, now())",
            [profile, endpoint.name, moment, load_id],
        )


def set_watermarks(lake: "Lake", moments: Sequence[tuple[str, Endpoint, datetime | None]]) -> None:
    """Say of streams that were read and brought nothing that they were, in the transaction."""
    members = {
        "account_profile": [profile for profile, _, _ in moments],
        "endpoint": [endpoint.name for _, endpoint, _ in moments],
        "watermark_at": pa.array([at for _, _, at in moments], pa.timestamp("us", tz="UTC")),
    }
    with lake.view("read_streams", pa.table(members)):
        lake.execute(
            "update meta.watermarks w set updated_at = now(), "
            "watermark_at = greatest(w.watermark_at, r.watermark_at) "
            "from (select account_profile, endpoint, max(watermark_at) as watermark_at "
            "from read_streams group by all) r "
            "where w.account_profile = r.account_profile and w.endpoint = r.endpoint"
        )
        lake.execute(
            "insert into meta.watermarks by name select account_profile, endpoint, "
            "max(watermark_at) as watermark_at, now() as updated_at from read_streams r "
            "where not exists (select 1 from meta.watermarks w where "
            "w.account_profile = r.account_profile and w.endpoint = r.endpoint) group by all"
        )
