"""The status of each stream: how far it is read, what is missing, what was quarantined."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from fleetlake.account import DEFAULT_PROFILE, stream_name
from fleetlake.endpoints import requested_endpoints
from fleetlake.endpoints.model import Endpoint
from fleetlake.lake import Lake
from fleetlake.lake.current import fan_out_ids
from fleetlake.lake.ducklake import bounds_in
from fleetlake.lake.retention_rules import kept_from
from fleetlake.lake.watermarks import all_proven_intervals
from fleetlake.planning.coverage import TOLERANCE
from fleetlake.planning.intervals import Interval, subtract
from fleetlake.planning.retention import Forecast, forecast
from fleetlake.service.clock import machine_now
from fleetlake.settings import ClockTrust
from fleetlake.text.quoting import literal, quoted
from fleetlake.text.wording import counted

if TYPE_CHECKING:
    from fleetlake.lake.evolution.drift import Misfit


@dataclass(frozen=True, kw_only=True)
class StreamStatus:
    """One stream: its rows, its newest event, its last load and what is missing. Times are UTC.

    `holes` counts the unproven ranges between the oldest and the newest proven time; for a fan-out,
    those of all ids. All lie in `holes_from` to `holes_until`. `retention` is set if the service
    deletes old records. `absent` counts records missing from a list that shrank too much to be
    trusted. `unavailable` says why this account cannot read the endpoint. `misfits` are columns
    that refused values. `devices` is how many devices are asked, if the list is read device by
    device.
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
    misfits: "tuple[Misfit, ...]" = ()
    devices: int | None = None
    holes_from: datetime | None = None
    holes_until: datetime | None = None

    @property
    def name(self) -> str:
        """The endpoint, with the account if it is not the only one."""
        return stream_name(self.endpoint, self.account_profile)

    @property
    def load(self) -> str:
        """How to load the stream, in words."""
        is_only = self.account_profile == DEFAULT_PROFILE
        option = "" if is_only else f" --profile {self.account_profile}"
        return f"run `fleetlake ingest {self.endpoint}{option}`"


def lake_now(lake: Lake, trust: ClockTrust) -> datetime:
    """Return the current time for judging a lake's streams, in UTC.

    It is this machine's time. If only the service's clock is trusted, which may be ahead, it is at
    least the newest watermark.
    """
    now = machine_now()
    if trust is ClockTrust.CHECKED:
        return now
    [(newest,)] = lake.rows("select max(watermark_at) from meta.watermarks")
    return max(now, newest) if newest else now


def stream_statuses(
    lake: Lake, *, now: datetime, calls_per_minute: int, only: Collection[str] | None = None
) -> list[StreamStatus]:
    """Return the status of every stream, or `only` of some endpoints, by account and endpoint."""
    endpoints = [e for e in requested_endpoints() if only is None or e.name in only]
    found = lake.rows("select distinct account_profile from meta.watermarks order by 1")
    profiles = [profile for (profile,) in found] or [DEFAULT_PROFILE]
    accounts = [_AccountStatus(lake, one, endpoints, now, calls_per_minute) for one in profiles]
    return [account.status(e) for account in accounts for e in endpoints]


def complete_until(proven: Mapping[str, list[Interval]]) -> datetime | None:
    """Return until when every partition of a stream is complete, or None if nothing is proven."""
    return min((max(one.end for one in ranges) for ranges in proven.values()), default=None)


def _counts(lake: Lake, profile: str, endpoints: Sequence[Endpoint]) -> dict[str, int]:
    """Return the rows of an account by raw table; DuckDB reads no file of a table for it alone."""
    bounds, own = bounds_in(lake, "raw", "account_profile"), literal(profile)
    counts = [
        f"select {literal(endpoint.name)}, count(*) from raw.{endpoint.name}"
        + ("" if {*bounds[endpoint.name]} == {profile} else f" where account_profile = {own}")
        for endpoint in endpoints
        if endpoint.name in bounds
    ]
    return dict(lake.rows(" union all ".join(counts))) if counts else {}


class _AccountStatus:
    """The meta tables of one account, read once for all its streams."""

    def __init__(
        self,
        lake: Lake,
        profile: str,
        endpoints: Sequence[Endpoint],
        now: datetime,
        calls_per_minute: int,
    ) -> None:
        self._lake, self._profile = lake, profile
        self._now, self._calls_per_minute = now, calls_per_minute
        self._watermarks = self._by_endpoint("watermark_at, updated_at", "watermarks")
        waiting = "count(*) filter (resolved_at is null)"
        self._quarantined = self._by_endpoint(waiting, "quarantine", grouped=True)
        without_column = "(endpoint, member) not in (select (endpoint, member) from meta.promoted)"
        waiting = f"count(*) filter ({without_column})"
        self._drifted = self._by_endpoint(waiting, "schema_drift", grouped=True)
        self._absent = self._by_endpoint("count(*)", "absent", grouped=True)
        self._capabilities = self._by_endpoint("is_available, reason", "capabilities")
        self._rows = _counts(lake, profile, endpoints)
        self._proven = all_proven_intervals(lake, profile, [e.name for e in endpoints])
        self._kept_from = kept_from(lake)
        self._listed: dict[str, frozenset[str]] = {}

    def _by_endpoint(
        self, columns: str, table: str, *, grouped: bool = False
    ) -> dict[str, tuple[Any, ...]]:
        rows = self._lake.rows(
            f"select endpoint, {columns} from meta.{table} where account_profile = ?"
            + (" group by endpoint" if grouped else ""),
            [self._profile],
        )
        return {name: tuple(values) for name, *values in rows}

    def status(self, endpoint: Endpoint) -> StreamStatus:
        """Return the status of one stream."""
        name = endpoint.name
        watermark_at, loaded_at = self._watermarks.get(name, (None, None))
        proven = self._proven.get(name, {})
        devices = self._devices(endpoint)
        # A device that is no longer listed is not asked again.
        asked = {id_: proven[id_] for id_ in proven if not devices or id_ in devices}
        until = complete_until(asked)
        holes = [hole for ranges in proven.values() for hole in self._holes(endpoint, ranges)]
        drifted = self._drifted.get(name, (0,))[0]
        is_available, reason = self._capabilities.get(name, (True, None))
        return StreamStatus(
            account_profile=self._profile,
            endpoint=name,
            rows=self._rows.get(name, 0),
            watermark_at=watermark_at,
            loaded_at=loaded_at,
            complete_from=max((i[0].start for i in proven.values()), default=None),
            complete_until=until,
            holes=len(holes),
            quarantined=self._quarantined.get(name, (0,))[0],
            drifted=drifted,
            retention=self._forecast(endpoint, until, holes),
            unavailable=None if is_available else reason,
            absent=self._absent.get(name, (0,))[0],
            misfits=self._misfits(endpoint) if drifted else (),
            devices=None if devices is None else len(devices),
            holes_from=min((hole.start for hole in holes), default=None),
            holes_until=max((hole.end for hole in holes), default=None),
        )

    def _misfits(self, endpoint: Endpoint) -> "tuple[Misfit, ...]":
        from fleetlake.lake.evolution.drift import misfits  # noqa: PLC0415 - few lakes have any

        return misfits(self._lake, endpoint, self._profile)

    def _devices(self, endpoint: Endpoint) -> frozenset[str] | None:
        """Return the listed ids of a list that is read device by device; of another, None."""
        if not endpoint.is_divisible or endpoint.fan_out is None:
            return None
        source = endpoint.fan_out.source
        if source not in self._listed:
            ids = fan_out_ids(self._lake, self._profile, endpoint)
            self._listed[source] = frozenset(map(str, ids))
        return self._listed[source]

    def _forecast(
        self, endpoint: Endpoint, until: datetime | None, holes: list[Interval]
    ) -> Forecast | None:
        """Forecast when the oldest unread record expires; it may be in an old hole."""
        if endpoint.retention is None or until is None:
            return None
        [(records, oldest)] = self._lake.rows(
            f"select count(*), min({quoted(str(endpoint.event_time))}) from raw.{endpoint.name} "
            f"where {quoted(str(endpoint.event_time))} >= ? and account_profile = ?",
            [until - timedelta(days=1), self._profile],
        )
        seconds = max((until - oldest).total_seconds(), 1.0) if oldest else 1.0
        return forecast(
            unread=[*holes, Interval(until, max(until, self._now))],
            now=self._now,
            retention=endpoint.retention,
            records_per_second=records / seconds,
            calls_per_minute=self._calls_per_minute,
        )

    def _holes(self, endpoint: Endpoint, proven: list[Interval]) -> list[Interval]:
        """Return the unproven ranges between the oldest and the newest proven time.

        What the lake no longer keeps is not a hole.
        """
        start, end = proven[0].start, max(interval.end for interval in proven)
        start = max(start, self._kept_from.get(endpoint.name, start))
        return subtract(Interval(start, end), proven) if start < end else []


def stream_faults(
    stream: StreamStatus, now: datetime, *, shows_values: bool = True
) -> Iterator[str]:
    """Yield what is missing from a stream or wrong with it, each with what to do about it.

    Unless it `shows_values`, no line holds a text of the service.
    """
    name, load = stream.name, stream.load
    if stream.complete_until and stream.complete_until > now + TOLERANCE:
        until = f"{stream.complete_until:%Y-%m-%d %H:%M}"
        yield f"{name} is marked complete until {until}, in the future: {load} to correct it."
    if stream.holes:
        holes = counted(stream.holes, "hole") + between(stream.holes_from, stream.holes_until)
        yield f"{name} has {holes}: if no load is running, {load}."
    if stream.absent:
        gone = counted(stream.absent, "record")
        yield (
            f"{name} no longer lists {gone}, too many to be deletions: check the rights of the "
            f"keys; if the list is right, {load[:-1]} --accept-shrunk {stream.endpoint}`."
        )
    if stream.quarantined:
        refused = counted(stream.quarantined, "record")
        yield f"{refused} of {name} could not be stored: see `fleetlake records quarantine`."
    for misfit in stream.misfits:
        command = misfit.command
        then = f"run `{command}`" if command else "they are kept in `_extra`"
        example = f", e.g. {misfit.example}" if shows_values else ""
        yield (
            f"{counted(misfit.rows, 'value')} of {name}.{misfit.column} did not fit the "
            f"type {misfit.kind}{example}: {then}."
        )


def between(start: datetime | None, end: datetime | None) -> str:
    """Return a range of time in words, after a space; nothing if either end is not known."""
    return f" between {start:%Y-%m-%d %H:%M} and {end:%Y-%m-%d %H:%M}" if start and end else ""
