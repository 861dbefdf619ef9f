"""Forecast how many calls a load will make, without making any.

The forecast uses only the lake: the plan that the load itself would make, and the number of records
of a stream in its last day. A stream that was never loaded has no forecast. The forecast for a
fleet of some size needs no lake; a lake tells it how many records and interfaces a router has.
"""

import math
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime, timedelta

from fleetlake.endpoints import ENDPOINTS
from fleetlake.endpoints.model import Endpoint
from fleetlake.endpoints.relations import Thing, freshness_of, naming_columns
from fleetlake.lake import Lake, open_lake
from fleetlake.lake.catalog import has_lake
from fleetlake.lake.current import fan_out_ids, is_current
from fleetlake.lake.run_state import RunState
from fleetlake.lake.watermarks import WHOLE_STREAM
from fleetlake.loading.ingest import endpoints_to_read
from fleetlake.loading.load_plan import LoadPlan, plan_load
from fleetlake.loading.run import Scope
from fleetlake.planning.intervals import Interval, subtract
from fleetlake.reading.windows import spans_of
from fleetlake.settings import Settings
from fleetlake.text.quoting import quoted

_HOUR = timedelta(hours=1)


INTERFACES_PER_ROUTER = 4
"""Assumed without a lake that tells: Ethernet, Wi-Fi and one or two modems."""


def one_per_call() -> list[str]:
    """Return the lists that take one call per device; their freshness decides a fleet's cost."""
    divisible = (e for e in ENDPOINTS.values() if e.is_divisible)
    return [e.name for e in divisible if e.fan_out and e.fan_out.ids_per_call == 1]


@dataclass(frozen=True, kw_only=True)
class CallForecast:
    """Upper bounds for the next load of one endpoint; None if nothing is known.

    `unread` is the unread event time of the id that is furthest behind.
    """

    endpoint: str
    unread: timedelta | None = None
    records: int | None = None
    calls: int | None = None


def plan_ingest(
    settings: Settings, names: Sequence[str], *, now: datetime, since: datetime | None = None
) -> list[CallForecast]:
    """Return the forecast for an ingest of the named endpoints, or of all; `now` is UTC.

    It includes ids that the load will skip if they have not changed. Raises: UsageError,
    SettingsError, LakeError.
    """
    endpoints = endpoints_to_read(settings, names)
    if not has_lake(settings.lake):
        return [CallForecast(endpoint=endpoint.name) for endpoint in endpoints]
    scope = Scope(since=since, freshness=freshness_of(settings.freshness))
    with open_lake(settings.lake, read_only=True) as lake:
        state = RunState(lake, settings.profile)
        with state.single_snapshot():  # which reads the lake's small tables once for all lists
            return [_forecast(state, endpoint, now=now, scope=scope) for endpoint in endpoints]


def plan_fleet(
    settings: Settings, names: Sequence[str], *, routers: int, is_first: bool = False
) -> list[CallForecast]:
    """Return the forecast of an hourly load of a fleet; of its first load, without past records.

    Lists that say which devices have changed save more calls. Raises: as `plan_ingest`.
    """
    endpoints = endpoints_to_read(settings, names)
    freshness = {} if is_first else freshness_of(settings.freshness)
    is_known = has_lake(settings.lake)
    with open_lake(settings.lake, read_only=True) if is_known else nullcontext() as lake:
        fleet = _Fleet(lake, settings.profile, routers)
        return [
            CallForecast(
                endpoint=endpoint.name,
                unread=freshness.get(endpoint.name),
                calls=fleet.calls(endpoint, freshness.get(endpoint.name, _HOUR)),
            )
            for endpoint in endpoints
        ]


class _Fleet:
    """A fleet of so many routers, like the one in a lake if there is one."""

    def __init__(self, lake: Lake | None, profile: str, routers: int) -> None:
        self._lake, self._profile, self._routers = lake, profile, routers
        known = _listed(lake, Thing.ROUTER.listing, profile) if lake else 0
        self._share = routers / known if known else 0.0

    def calls(self, endpoint: Endpoint, freshness: timedelta) -> int:
        """Return the calls of one hour's load of an endpoint."""
        requests = pages = 0.0
        if endpoint.fan_out:
            ids = self._records(ENDPOINTS[endpoint.fan_out.source])
            requests = ids / endpoint.fan_out.ids_per_call / max(freshness / _HOUR, 1)
        elif endpoint.is_snapshot:
            requests = self._records(endpoint) / endpoint.page_size
        if self._lake and not endpoint.is_snapshot:
            hourly = _records_per_second(self._lake, endpoint, self._profile) * _HOUR.seconds
            pages = self._share * hourly / endpoint.page_size
        return max(1, math.ceil(max(requests, pages)))

    def _records(self, listing: Endpoint) -> float:
        """Return the number of records of a list."""
        if self._lake and self._share:
            return self._share * _listed(self._lake, listing, self._profile)
        if naming_columns(listing, Thing.NET_DEVICE):
            return self._routers * INTERFACES_PER_ROUTER
        return self._routers if naming_columns(listing, Thing.ROUTER) else 0


def _listed(lake: Lake, endpoint: Endpoint, profile: str) -> int:
    """Return the number of current records of a list."""
    return lake.number(
        f"select count(*) from raw.{endpoint.name} "
        f"where account_profile = ? and {is_current(endpoint)}",
        [profile],
    )


def _forecast(state: RunState, endpoint: Endpoint, *, now: datetime, scope: Scope) -> CallForecast:
    if state.watermark(endpoint) is None:
        return CallForecast(endpoint=endpoint.name)
    if endpoint.is_snapshot:
        return _forecast_list(state.lake, endpoint, state.profile)
    plan = plan_load(state, endpoint, now=now, scope=scope)
    return _forecast_events(state.lake, endpoint, state.profile, plan=plan, now=now)


def _forecast_list(lake: Lake, endpoint: Endpoint, profile: str) -> CallForecast:
    """Return the forecast for a list: as many pages as last time."""
    records = _listed(lake, endpoint, profile)
    requests = 1
    if endpoint.fan_out:
        ids = len(fan_out_ids(lake, profile, endpoint))
        requests = math.ceil(ids / endpoint.fan_out.ids_per_call)
    calls = max(requests, math.ceil(records / endpoint.page_size))
    return CallForecast(endpoint=endpoint.name, records=records, calls=calls)


def _forecast_events(
    lake: Lake, endpoint: Endpoint, profile: str, *, plan: LoadPlan, now: datetime
) -> CallForecast:
    """Return the forecast for a stream: its unread time at the record rate of its last day."""
    oldest = _oldest(lake, endpoint, profile) or now - timedelta(days=1)
    spans = spans_of(endpoint, _held_by_service(plan, oldest))
    density = _records_per_second(lake, endpoint, profile)
    ids = max(1, sum(len(span.partitions) for span in spans))
    records = calls = 0.0
    for span in spans:
        seconds = (span.interval.end - span.interval.start).total_seconds()
        expected = density * seconds * max(1, len(span.partitions)) / ids
        records += expected
        calls += max(1, math.ceil(expected / endpoint.page_size))
    calls += len(spans_of(endpoint, _expired(plan)))  # each is requested once before it expires
    starts = [interval.start for _, interval in plan.wanted if interval.end > oldest]
    return CallForecast(
        endpoint=endpoint.name,
        unread=now - max(min(starts), oldest) if starts else timedelta(0),
        records=round(records),
        calls=round(calls),
    )


def _held_by_service(plan: LoadPlan, oldest: datetime) -> list[tuple[int | None, Interval]]:
    """Return the ranges of a plan that can hold records: not before the oldest, not expired."""
    return [
        (partition, part)
        for partition, interval in plan.wanted
        if interval.end > oldest
        for part in subtract(
            Interval(max(interval.start, oldest), interval.end), _expired_of(plan, partition)
        )
    ]


def _expired(plan: LoadPlan) -> list[tuple[int | None, Interval]]:
    wanted = {partition for partition, _ in plan.wanted}
    return [(partition, one) for partition in wanted for one in _expired_of(plan, partition)]


def _expired_of(plan: LoadPlan, partition: int | None) -> Sequence[Interval]:
    return plan.expired.get(WHOLE_STREAM if partition is None else str(partition), ())


def _oldest(lake: Lake, endpoint: Endpoint, profile: str) -> datetime | None:
    """Return the time of the oldest record in the lake; none is expected before it."""
    event = quoted(str(endpoint.event_time))
    return lake.instant(
        f"select min({event}) from raw.{endpoint.name} where account_profile = ?", [profile]
    )


def _records_per_second(lake: Lake, endpoint: Endpoint, profile: str) -> float:
    event = quoted(str(endpoint.event_time))
    [(records, first, last)] = lake.rows(
        f"with own as (select {event} as event_at from raw.{endpoint.name} "
        "where account_profile = ?) "
        "select count(*), min(event_at), max(event_at) from own "
        "where event_at >= (select max(event_at) - interval 1 day from own)",
        [profile],
    )
    if not records:
        return 0.0
    # Few records give no reliable rate, so the rate covers at least an hour.
    seconds: float = max((last - first).total_seconds(), _HOUR.seconds)
    return float(records) / seconds
