"""What a load will cost in calls, told before any call is made.

Forecast from the lake alone: how many records a stream brought in its last day, for how many
ids it is asked, and how far it is read. What was never loaded cannot be forecast.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from fleetlake.endpoints.model import Endpoint, Mode
from fleetlake.lake import Lake, open_lake
from fleetlake.lake.attach import CATALOG
from fleetlake.lake.watermarks import WHOLE_STREAM, last_read, proven_intervals, watermark
from fleetlake.loading.ingest import endpoints_to_read
from fleetlake.loading.streams import changing_since, fan_out_ids
from fleetlake.planning.coverage import still_to_read, sweep_from
from fleetlake.planning.intervals import Interval
from fleetlake.planning.shards import WHOLE
from fleetlake.reading.windows import Span, spans_of
from fleetlake.settings import Settings
from fleetlake.text.quoting import quoted

_HOUR_SECONDS = 3600


@dataclass(frozen=True, kw_only=True)
class CallForecast:
    """What the next load of one endpoint takes, at most; None where nothing is known of it.

    `unread` is how much event time lies unread, by the id that is furthest behind.
    """

    endpoint: str
    unread: timedelta | None
    records: int | None
    calls: int | None


def forecast_calls(
    lake: Lake,
    endpoints: Sequence[Endpoint],
    *,
    profile: str,
    now: datetime,
    since: datetime | None = None,
) -> list[CallForecast]:
    """Return what a load of the endpoints takes at `now`, UTC; ids that did not move included."""
    known = _Known(lake, profile, now, since)
    return [known.forecast(endpoint) for endpoint in endpoints]


def plan_ingest(
    settings: Settings, names: Sequence[str], *, now: datetime, since: datetime | None = None
) -> list[CallForecast]:
    """Return what an ingest of the named endpoints, or of all, would take; `now` is UTC.

    Raises: UsageError, SettingsError, LakeError.
    """
    endpoints = endpoints_to_read(settings, names)
    if not (settings.lake / CATALOG).exists():
        return [_unknown(endpoint) for endpoint in endpoints]
    with open_lake(settings.lake, read_only=True) as lake:
        return forecast_calls(lake, endpoints, profile=settings.profile, now=now, since=since)


def _unknown(endpoint: Endpoint) -> CallForecast:
    return CallForecast(endpoint=endpoint.name, unread=None, records=None, calls=None)


@dataclass(frozen=True)
class _Known:
    """What the lake tells of its streams."""

    lake: Lake
    profile: str
    now: datetime
    since: datetime | None

    def forecast(self, endpoint: Endpoint) -> CallForecast:
        if watermark(self.lake, self.profile, endpoint) is None:
            return _unknown(endpoint)
        return self._of_list(endpoint) if endpoint.is_snapshot else self._of_events(endpoint)

    def _of_list(self, endpoint: Endpoint) -> CallForecast:
        """Return what a list takes: as many pages as it had last time."""
        current = "where valid_to is null" if endpoint.mode is Mode.HISTORY else ""
        [(records,)] = self.lake.rows(f"select count(*) from raw.{endpoint.name} {current}")
        requests = 1
        if endpoint.fan_out:
            ids = len(fan_out_ids(self.lake, self.profile, endpoint))
            requests = math.ceil(ids / endpoint.fan_out.ids_per_call)
        calls = max(requests, math.ceil(records / endpoint.page_size))
        return CallForecast(endpoint=endpoint.name, unread=None, records=records, calls=calls)

    def _of_events(self, endpoint: Endpoint) -> CallForecast:
        """Return what a stream takes: its unread time at the density of its last day."""
        spans = self._spans(endpoint)
        density = self._records_per_second(endpoint)
        ids = max(1, sum(len(span.partitions) for span in spans))
        records = calls = 0.0
        for span in spans:
            seconds = (span.interval.end - span.interval.start).total_seconds()
            expected = density * seconds * max(1, len(span.partitions)) / ids
            records += expected
            calls += max(1, math.ceil(expected / endpoint.page_size))
        starts = [span.interval.start for span in spans]
        return CallForecast(
            endpoint=endpoint.name,
            unread=self.now - min(starts) if starts else timedelta(0),
            records=round(records),
            calls=round(calls),
        )

    def _spans(self, endpoint: Endpoint) -> list[Span]:
        """Return what would be asked for, within the time that the lake knows about."""
        proven = proven_intervals(self.lake, self.profile, endpoint)
        last = last_read(self.lake, self.profile, endpoint, str(WHOLE))
        swept_at = last.swept_at if last else self.now
        swept_from = sweep_from(swept_at, proven.values(), now=self.now)
        changing = changing_since(self.lake, self.profile, endpoint)
        asked: list[int | None] = [None]
        if endpoint.fan_out:
            asked = [*fan_out_ids(self.lake, self.profile, endpoint)]
        oldest = self._oldest(endpoint)
        wanted = [
            (partition, Interval(max(interval.start, oldest), interval.end))
            for partition in asked
            for interval in still_to_read(
                proven.get(WHOLE_STREAM if partition is None else str(partition), []),
                now=self.now,
                since=self.since or (last.wanted_from if last else None),
                again_from=min(filter(None, (swept_from, changing)), default=None),
            )
            if interval.end > oldest
        ]
        return spans_of(endpoint, wanted)

    def _oldest(self, endpoint: Endpoint) -> datetime:
        """Return from when on there are records to count: before it the service has shown none."""
        event = quoted(str(endpoint.event_time))
        [(oldest,)] = self.lake.rows(f"select min({event}) from raw.{endpoint.name}")
        return oldest or self.now - timedelta(days=1)

    def _records_per_second(self, endpoint: Endpoint) -> float:
        event = quoted(str(endpoint.event_time))
        [(records, first, last)] = self.lake.rows(
            f"select count(*), min({event}), max({event}) from raw.{endpoint.name} "
            f"where {event} >= (select max({event}) - interval 1 day from raw.{endpoint.name})"
        )
        if not records:
            return 0.0
        # A single record says no more than that there is one now and then.
        seconds: float = max((last - first).total_seconds(), _HOUR_SECONDS)
        return float(records) / seconds
