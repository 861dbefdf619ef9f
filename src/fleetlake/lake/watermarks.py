"""How far each stream has been read: proven intervals per partition, and its newest event."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple, Self

from fleetlake.endpoints import ENDPOINTS
from fleetlake.endpoints.model import Endpoint
from fleetlake.lake.connection import Lake
from fleetlake.lake.locks import commit_lock
from fleetlake.planning.intervals import BEGINNING, Interval, coalesce, subtract
from fleetlake.text.quoting import literal
from fleetlake.text.tables_beside import statements_beside

WHOLE_STREAM = ""
"""Partition of a stream without a fan-out."""

_WRITTEN = statements_beside(__file__, "watermarks.sql")
STATEMENTS = {name: sql.format(**_WRITTEN) for name, sql in _WRITTEN.items()}


def proven_intervals(
    lake: Lake, profile: str, endpoint: Endpoint, *, partitions: Collection[str] | None = None
) -> dict[str, list[Interval]]:
    """Return the ranges proven complete by partition, oldest first; of all partitions, or some."""
    if partitions is None:
        return all_proven_intervals(lake, profile, [endpoint.name]).get(endpoint.name, {})
    import pyarrow as pa  # noqa: PLC0415 - those who only read need it not

    with lake.view("asked", pa.table({"partition": pa.array(partitions, pa.string())})):
        found = lake.rows(
            "select partition, start_at, end_at from meta.intervals where account_profile = ? "
            "and endpoint = ? and partition in (select partition from asked) order by start_at",
            [profile, endpoint.name],
        )
    return _by_partition(found)


def _by_partition(rows: Iterable[tuple[str, datetime, datetime]]) -> dict[str, list[Interval]]:
    """Return ranges by partition; those of one call are equal, and kept once."""
    proven: dict[str, list[Interval]] = {}
    once: dict[Interval, Interval] = {}
    for partition, start, end in rows:
        interval = Interval(start, end)
        proven.setdefault(partition, []).append(once.setdefault(interval, interval))
    return proven


def all_proven_intervals(
    lake: Lake, profile: str, only: Collection[str] | None = None
) -> dict[str, dict[str, list[Interval]]]:
    """Return the proven ranges by endpoint and partition, oldest first, from one query.

    `only` names the endpoints, all by default.
    """
    # Not a list as a parameter: DuckDB looks for pandas twice with each value of one.
    where = f"endpoint in ({', '.join(map(literal, only))})" if only else "true"
    rows: dict[str, list[tuple[str, datetime, datetime]]] = {}
    for endpoint, *row in lake.rows(
        "select endpoint, partition, start_at, end_at from meta.intervals "
        f"where account_profile = ? and {where} order by start_at",
        [profile],
    ):
        rows.setdefault(endpoint, []).append((row[0], row[1], row[2]))
    return {endpoint: _by_partition(of_endpoint) for endpoint, of_endpoint in rows.items()}


class HeldList(NamedTuple):
    """A list as it was read, by a digest of its pages, and a snapshot of the lake that holds it."""

    digest: str
    snapshot: int


class StreamMark(NamedTuple):
    """The newest event time that was committed, if any, and when the stream was last loaded.

    `held` is the list that the stream's last load found, if it is one.
    """

    newest: datetime | None
    updated_at: datetime
    held: HeldList | None = None


def stream_marks(lake: Lake) -> dict[str, dict[str, StreamMark]]:
    """Return the watermark of each stream that was ever loaded, by account and endpoint."""
    marks: dict[str, dict[str, StreamMark]] = {}
    for profile, endpoint, newest, updated_at, digest, snapshot in lake.rows(
        "select account_profile, endpoint, watermark_at, updated_at, list_digest, list_snapshot "
        "from meta.watermarks"
    ):
        held = HeldList(digest, snapshot) if digest else None
        marks.setdefault(profile, {})[endpoint] = StreamMark(newest, updated_at, held)
    return marks


def unconfirmed_keys(lake: Lake, profile: str) -> dict[str, frozenset[str]]:
    """Return the keys of the records missing from their list, unconfirmed, by endpoint."""
    found = lake.rows(
        "select endpoint, list(record_key) from meta.absent where account_profile = ? group by all",
        [profile],
    )
    return {endpoint: frozenset(keys) for endpoint, keys in found}


def add_intervals(
    lake: Lake, profile: str, endpoint: Endpoint, added: Mapping[str, Iterable[Interval]]
) -> None:
    """Add newly proven ranges to those of their partitions, in the open transaction."""
    # Only theirs: a large fleet has a partition per interface, and many commits.
    known = proven_intervals(lake, profile, endpoint, partitions=added.keys())
    joined = {p: [*known.get(p, ()), *intervals] for p, intervals in added.items()}
    replace_intervals(lake, profile, endpoint, joined)


def replace_intervals(
    lake: Lake, profile: str, endpoint: Endpoint, proven: Mapping[str, Iterable[Interval]]
) -> None:
    """Replace the proven ranges of these partitions, in the open transaction."""
    rows = [
        (partition, interval.start, interval.end)
        for partition, intervals in proven.items()
        for interval in coalesce(intervals)
    ]
    kept = {partition for partition, _, _ in rows}
    if emptied := [partition for partition in proven if partition not in kept]:
        lake.execute(
            "delete from meta.intervals where account_profile = ? and endpoint = ? "
            "and partition in (select unnest(?))",
            [profile, endpoint.name, emptied],
        )
    if not rows:
        return
    import pyarrow as pa  # noqa: PLC0415 - those who only read need it not

    instant = pa.timestamp("us", tz="UTC")
    schema = pa.schema([("partition", pa.string()), ("start_at", instant), ("end_at", instant)])
    columns = [list(column) for column in zip(*rows, strict=True)]
    with lake.view("joined", pa.table(columns, schema=schema)):
        lake.execute(
            "delete from meta.intervals where account_profile = ? and endpoint = ? "
            "and partition in (select partition from joined)",
            [profile, endpoint.name],
        )
        lake.execute(
            "insert into meta.intervals by name select ? as account_profile, ? as endpoint, "
            "partition, start_at, end_at from joined",
            [profile, endpoint.name],
        )


def forget_interval(lake: Lake, profile: str, endpoint: Endpoint, interval: Interval) -> None:
    """Mark a range as unproven in all partitions, so that it is read again."""
    known = proven_intervals(lake, profile, endpoint)
    left = {
        partition: [part for whole in intervals for part in subtract(whole, [interval])]
        for partition, intervals in known.items()
    }
    with commit_lock(lake.path), lake.transaction():
        lake.execute(
            "delete from meta.intervals where account_profile = ? and endpoint = ?",
            [profile, endpoint.name],
        )
        add_intervals(lake, profile, endpoint, left)


@dataclass(frozen=True, kw_only=True)
class LastRead:
    """What is known about the last finished load of a stream's shard.

    The next load reads `unsettled` again; it is None until a load has finished. Every
    sweep due by `swept_at` has been made. Nothing before `wanted_from` is read unless requested.
    """

    shard: str
    unsettled: Interval | None
    swept_at: datetime
    wanted_from: datetime

    def proven_until(self, instant: datetime) -> Self:
        """Return the same read, with nothing final from `instant` on."""
        if self.unsettled is None or self.unsettled.start <= instant:
            return self
        return replace(self, unsettled=Interval(instant, self.unsettled.end))


def newest_event(marks: Mapping[str, StreamMark], *, until: datetime) -> datetime | None:
    """Return the newest time, up to `until`, on the records of an account's streams."""
    snapshots = {endpoint.name for endpoint in ENDPOINTS.values() if endpoint.is_snapshot}
    moments = [mark.newest for name, mark in marks.items() if name not in snapshots]
    return max((one for one in moments if one and one <= until), default=None)


class ReadRow(NamedTuple):
    """A row of `meta.reads`."""

    endpoint: str
    shard: str
    final_until: datetime | None
    read_until: datetime | None
    swept_at: datetime
    wanted_from: datetime | None


def never_read(
    reads: Sequence[ReadRow], endpoints: Sequence[Endpoint], shard: str
) -> list[Endpoint]:
    """Return the endpoints with event times that the shard has never begun to load."""
    known = {one.endpoint for one in reads if one.shard == shard}
    return [e for e in endpoints if not e.is_snapshot and e.name not in known]


def begin_reads(
    lake: Lake,
    profile: str,
    new: Sequence[Endpoint],
    shard: str,
    *,
    now: datetime,
    since: datetime | None,
) -> None:
    """Record the start of streams that are read for the first time.

    Nothing before `now` needs a sweep. A stream that was sharded differently before keeps the
    sweep time and start of its previous shards.
    """
    if not new:
        return
    with commit_lock(lake.path), lake.transaction():
        lake.execute(
            STATEMENTS["begin_reads"],
            {
                "profile": profile,
                "shard": shard,
                "now": now,
                "since": since,
                "beginning": BEGINNING,
                "new": [endpoint.name for endpoint in new],
            },
        )


def extend_start(lake: Lake, profile: str, endpoints: Sequence[Endpoint], since: datetime) -> None:
    """Move the start of streams back to an earlier instant."""
    names = [endpoint.name for endpoint in endpoints if not endpoint.is_snapshot]
    condition = "account_profile = ? and endpoint in (select unnest(?)) and wanted_from > ?"
    if lake.rows(f"select 1 from meta.reads where {condition} limit 1", [profile, names, since]):
        with commit_lock(lake.path), lake.transaction():
            lake.execute(
                f"update meta.reads set wanted_from = ? where {condition}",
                [since, profile, names, since],
            )


def last_read(reads: Sequence[ReadRow], endpoint: Endpoint, shard: str) -> LastRead | None:
    """Return the last finished load of a stream's shard, or None before the first one."""
    for name, of_shard, final, read, swept_at, wanted_from in reads:
        if (name, of_shard) == (endpoint.name, shard):
            return LastRead(
                shard=shard,
                unsettled=Interval(final, read) if final and read else None,
                swept_at=swept_at,
                wanted_from=wanted_from or BEGINNING,
            )
    return None


def all_reads(lake: Lake, profile: str) -> list[ReadRow]:
    """Return the last finished load of each stream and shard of an account."""
    found = lake.rows(
        "select endpoint, shard, final_until, read_until, swept_at, wanted_from from meta.reads "
        "where account_profile = ?",
        [profile],
    )
    return [ReadRow(*row) for row in found]
