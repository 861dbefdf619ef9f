"""What is known about each stream: how far it is read, what is missing, what was refused."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from fleetlake.account import DEFAULT_PROFILE
from fleetlake.endpoints import ENDPOINTS
from fleetlake.endpoints.model import Endpoint
from fleetlake.lake import Lake
from fleetlake.lake.gaps import Gap, gaps
from fleetlake.lake.watermarks import all_proven_intervals
from fleetlake.planning.intervals import Interval, subtract
from fleetlake.planning.retention import Forecast, forecast
from fleetlake.service.clock import machine_now
from fleetlake.settings import ClockTrust
from fleetlake.text.quoting import quoted


@dataclass(frozen=True, kw_only=True)
class StreamStatus:
    """One stream: rows held, newest event, when it was last loaded, and what is not there.

    `holes` are ranges between the oldest and the newest proven instant that are not proven;
    over a fan-out they are counted for each id. `retention` is there for a stream whose records
    the service forgets. `absent` records are gone from a list that has shrunk too much to be
    believed. `unavailable` is why this account may not read it.
    """

    account_profile: str
    endpoint: str
    rows: int
    watermark_at: datetime | None
    loaded_at: datetime | None
    complete_from: datetime | None
    complete_until: datetime | None
    holes: int
    quarantined: int
    drifted: int
    retention: Forecast | None
    unavailable: str | None
    absent: int = 0


@dataclass(frozen=True, kw_only=True)
class LakeStatus:
    """All streams, and the ranges that were lost and not yet acknowledged."""

    streams: list[StreamStatus]
    open_gaps: list[Gap]


def lake_now(lake: Lake, trust: ClockTrust) -> datetime:
    """Return the time that a lake's streams are measured against, in UTC.

    It is this machine's. Where the service alone is believed, its clock may run ahead: then the
    newest instant in the lake counts.
    """
    now = machine_now()
    if trust is ClockTrust.CHECKED:
        return now
    [(newest,)] = lake.rows("select max(watermark_at) from meta.watermarks")
    return max(now, newest) if newest else now


def lake_status(lake: Lake, *, now: datetime, calls_per_minute: int) -> LakeStatus:
    """Return the status of a lake, of all accounts in it; `now` is UTC."""
    with lake.single_snapshot():
        return LakeStatus(
            streams=stream_statuses(lake, now=now, calls_per_minute=calls_per_minute),
            open_gaps=gaps(lake, only_open=True),
        )


def stream_statuses(lake: Lake, *, now: datetime, calls_per_minute: int) -> list[StreamStatus]:
    """Return the status of every stream, by account and in the endpoint table's order."""
    found = lake.rows("select distinct account_profile from meta.watermarks order by 1")
    profiles = [profile for (profile,) in found] or [DEFAULT_PROFILE]
    known = [_Known(lake, profile, now, calls_per_minute) for profile in profiles]
    return [of_account.status(e) for of_account in known for e in ENDPOINTS.values()]


class _Known:
    """What the meta tables say, read once for all streams."""

    def __init__(self, lake: Lake, profile: str, now: datetime, calls_per_minute: int) -> None:
        self._lake, self._profile = lake, profile
        self._now, self._calls_per_minute = now, calls_per_minute
        self._marks = self._by_endpoint("watermark_at, updated_at", "watermarks")
        waiting = "count(*) filter (resolved_at is null)"
        self._refused = self._by_endpoint(waiting, "quarantine", grouped=True)
        without_column = "(endpoint, member) not in (select (endpoint, member) from meta.promoted)"
        waiting = f"count(*) filter ({without_column})"
        self._drifted = self._by_endpoint(waiting, "schema_drift", grouped=True)
        self._absent = self._absent_by_endpoint()
        self._capable = self._by_endpoint("is_available, reason", "capabilities")
        self._proven = all_proven_intervals(lake, profile)

    def _by_endpoint(
        self, columns: str, table: str, *, grouped: bool = False
    ) -> dict[str, tuple[Any, ...]]:
        rows = self._lake.rows(
            f"select endpoint, {columns} from meta.{table} where account_profile = ?"
            + (" group by endpoint" if grouped else ""),
            [self._profile],
        )
        return {name: tuple(values) for name, *values in rows}

    def _absent_by_endpoint(self) -> dict[str, tuple[Any, ...]]:
        """Return how many records are absent; a lake that no release wrote since has no table."""
        has_table = self._lake.rows(
            "select 1 from duckdb_tables() where database_name = 'lake' "
            "and schema_name = 'meta' and table_name = 'absent'"
        )
        return self._by_endpoint("count(*)", "absent", grouped=True) if has_table else {}

    def status(self, endpoint: Endpoint) -> StreamStatus:
        """Return the status of one stream."""
        name = endpoint.name
        [(rows,)] = self._lake.rows(
            f"select count(*) from raw.{name} where account_profile = ?", [self._profile]
        )
        moment, at = self._marks.get(name, (None, None))
        proven = self._proven.get(name, {})
        until = min((max(i.end for i in intervals) for intervals in proven.values()), default=None)
        is_available, reason = self._capable.get(name, (True, None))
        return StreamStatus(
            account_profile=self._profile,
            endpoint=name,
            rows=rows,
            watermark_at=moment,
            loaded_at=at,
            complete_from=max((i[0].start for i in proven.values()), default=None),
            complete_until=until,
            holes=sum(len(_holes(intervals)) for intervals in proven.values()),
            quarantined=self._refused.get(name, (0,))[0],
            drifted=self._drifted.get(name, (0,))[0],
            retention=self._forecast(endpoint, until, list(proven.values())),
            unavailable=None if is_available else reason,
            absent=self._absent.get(name, (0,))[0],
        )

    def _forecast(
        self, endpoint: Endpoint, until: datetime | None, proven: list[list[Interval]]
    ) -> Forecast | None:
        """Say when the oldest unread record expires, which may lie in a hole far behind."""
        if endpoint.retention is None or until is None:
            return None
        holes = [hole for intervals in proven for hole in _holes(intervals)]
        [(records, oldest)] = self._lake.rows(
            f"select count(*), min({quoted(str(endpoint.event_time))}) from raw.{endpoint.name} "
            f"where {quoted(str(endpoint.event_time))} >= ?",
            [until - timedelta(days=1)],
        )
        seconds = max((until - oldest).total_seconds(), 1.0) if oldest else 1.0
        return forecast(
            unread=[*holes, Interval(until, max(until, self._now))],
            now=self._now,
            retention=endpoint.retention,
            records_per_second=records / seconds,
            calls_per_minute=self._calls_per_minute,
        )


def _holes(proven: list[Interval]) -> list[Interval]:
    """Return what is not proven between the oldest and the newest proven instant."""
    return subtract(Interval(proven[0].start, max(i.end for i in proven)), proven)
