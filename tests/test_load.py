"""Loads against the simulated service: what was served is in the lake, once.

Table-driven over the endpoint table, so that a new row is held to the same promises. The
truth comes from the simulator; our own output is never the measure.
"""

import pkgutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from math import inf
from typing import Any

import httpx
import pytest

from fleetlake.decoding.values import read_value
from fleetlake.endpoints import ENDPOINTS
from fleetlake.endpoints.model import Api, Endpoint, Mode
from fleetlake.errors import CredentialsRefused, FleetlakeError, LakeError, StreamFailed
from fleetlake.lake import Lake, open_lake
from fleetlake.lake.commit import commit_load
from fleetlake.lake.locks import stream_lock
from fleetlake.loading.ingest import ingest, raise_worst
from fleetlake.loading.outcome import Outcome
from tests.conftest import KEYS, NOW, Sim

SETTLE = timedelta(seconds=60)

every_endpoint = pytest.mark.parametrize("endpoint", ENDPOINTS.values(), ids=lambda e: e.name)
events = [e for e in ENDPOINTS.values() if not e.is_snapshot]
every_event_stream = pytest.mark.parametrize("endpoint", events, ids=lambda e: e.name)


@pytest.fixture
def lake_of() -> Callable[[Sim], Any]:
    """Return what opens a simulation's lake for reading."""
    return lambda sim: open_lake(sim.settings().lake, read_only=True)


def member(record: dict[str, Any], path: tuple[str, ...]) -> Any:
    for name in path:
        record = (record or {}).get(name)
    return record


def key_of(endpoint: Endpoint, record: dict[str, Any]) -> tuple[Any, ...]:
    """Return the key that a record of the service should have in the lake."""
    stamped = endpoint.fan_out.partition if endpoint.fan_out and endpoint.fan_out.is_stamped else ""
    columns = [endpoint.column(name) for name in endpoint.key]
    return tuple(
        int(record["_device"]) if c.name == stamped else read_value(c.kind, member(record, c.path))
        for c in columns
    )


def keys_in(lake: Lake, endpoint: Endpoint) -> list[tuple[Any, ...]]:
    """Return the keys in the lake, doubles and all; of a history, those that are current."""
    listed = ", ".join(f'"{name}"' for name in endpoint.key)
    current = "where valid_to is null" if endpoint.mode is Mode.HISTORY else ""
    return sorted(lake.rows(f"select {listed} from raw.{endpoint.name} {current}"))


def assert_complete(sim: Sim, endpoint: Endpoint, now: datetime = NOW) -> None:
    """Assert that the lake holds what the service had by one settle time before its clock.

    A load may see a second or two more than that, never anything the service did not have.
    """
    with open_lake(sim.settings().lake, read_only=True) as lake:
        kept = keys_in(lake, endpoint)
    until = None if endpoint.is_snapshot else now - SETTLE
    wanted = {key_of(endpoint, record) for record in sim.truth(endpoint.name, until)}
    ever = {key_of(endpoint, record) for record in sim.truth(endpoint.name)}
    assert wanted
    assert len(kept) == len(set(kept)), "doubled"
    assert wanted - set(kept) == set(), "lost"
    assert set(kept) - ever == set(), "invented"


@every_endpoint
def test_every_record_that_the_service_had_is_in_the_lake_once(
    sim: Sim, endpoint: Endpoint
) -> None:
    sim.ingest(endpoint.name)

    assert_complete(sim, endpoint)


@every_event_stream
def test_a_second_load_with_nothing_new_adds_nothing_and_asks_once_per_call_of_its_fan_out(
    sim: Sim, endpoint: Endpoint
) -> None:
    sim.ingest(endpoint.name)
    before = sim.calls(endpoint.name)

    [outcome] = [o for o in sim.ingest(endpoint.name) if o.endpoint == endpoint.name]

    asked = sim.calls(endpoint.name) - before
    one_id_a_call = endpoint.fan_out is not None and endpoint.fan_out.ids_per_call == 1
    assert outcome.added == outcome.changed == 0
    assert asked == (len(sim.truth("routers")) if one_id_a_call else 1)


@every_endpoint
def test_a_load_after_a_day_brings_what_happened_since(sim: Sim, endpoint: Endpoint) -> None:
    sim.ingest(endpoint.name)
    sim.advance(86_400)

    sim.ingest(endpoint.name)

    assert_complete(sim, endpoint, NOW + timedelta(days=1))


@every_endpoint
def test_answers_that_fail_now_and_then_lose_and_double_nothing(
    sim: Sim, endpoint: Endpoint
) -> None:
    kinds = ("status_500", "status_429", "reset", "truncate", "html", "no_data")
    sim.faults(**dict.fromkeys(kinds, 0.05))

    sim.ingest(endpoint.name)

    assert_complete(sim, endpoint)


class SmallPages(httpx.AsyncBaseTransport):
    """A service whose pages are small, and that answers a path well only so many times."""

    def __init__(self, sim: Sim, endpoint: Endpoint, *, good: float = inf) -> None:
        self._inner, self._path, self._good = sim.transport, endpoint.path, good
        self.limit = "100" if endpoint.fan_out else "2"
        self._size = "limit" if endpoint.api is Api.V2 else "page[size]"

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        size = request.url.params.get(self._size, "1")
        if request.url.path.endswith(f"/{self._path}") and size != "1":
            self._good -= 1
            if self._good < 0:
                return httpx.Response(500, text="internal error shard-router-3")
            request.url = request.url.copy_set_param(self._size, self.limit)
        return await self._inner.handle_async_request(request)


@every_endpoint
def test_pages_smaller_than_asked_for_are_walked_to_the_end(sim: Sim, endpoint: Endpoint) -> None:
    sim.ingest(endpoint.name, transport=SmallPages(sim, endpoint))

    assert_complete(sim, endpoint)


@every_endpoint
def test_a_second_page_that_fails_for_good_is_an_error_and_the_next_load_makes_it_whole(
    sim: Sim, lake_of: Any, endpoint: Endpoint
) -> None:
    broken = SmallPages(sim, endpoint, good=1)
    outcomes = sim.ingest(endpoint.name, transport=broken)
    [outcome] = [o for o in outcomes if o.endpoint == endpoint.name]
    with lake_of(sim) as lake:
        kept = keys_in(lake, endpoint)

    sim.ingest(endpoint.name)

    assert_complete(sim, endpoint)
    if len(sim.truth(endpoint.name)) > int(
        broken.limit
    ):  # a list that fits its first page never meets it
        assert "returned 500" in str(outcome.error)
        assert len(kept) < len(sim.truth(endpoint.name))


class Crash(BaseException):
    """Stands for the end of the process."""


@pytest.fixture
def crash_at(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """Return what makes the process end right before or right after its first commit."""

    @contextmanager
    def crashing(moment: str) -> Iterator[None]:
        def commit(lake: Lake, load: Any, **options: Any) -> Any:
            if moment == "after commit":
                commit_load(lake, load, **options)
            raise Crash

        with monkeypatch.context() as patch:
            patch.setattr("fleetlake.loading.lake_thread.commit_load", commit)
            yield

    return crashing


@every_endpoint
@pytest.mark.parametrize("moment", ["before commit", "after commit"])
def test_a_load_that_crashed_around_its_commit_is_made_whole_by_the_next(
    sim: Sim, endpoint: Endpoint, crash_at: Callable[[str], Any], moment: str
) -> None:
    if endpoint.fan_out:
        sim.ingest(endpoint.fan_out.source)
    with crash_at(moment), pytest.raises(Crash):
        sim.ingest(endpoint.name)

    sim.ingest(endpoint.name)

    assert_complete(sim, endpoint)


def test_ids_that_did_not_move_are_spared_and_nothing_is_missed(make_sim: Any) -> None:
    sim = make_sim(routers=12)
    bulk = ["locations", "net_device_metrics"]
    series = [e for e in events if e.fan_out and e.fan_out.moved]
    spared = 0
    for _ in range(4):
        outcomes = sim.ingest(*bulk, *(e.name for e in series))
        spared += sum(outcome.spared for outcome in outcomes)
        sim.advance(1800)
    sim.ingest(*bulk, *(e.name for e in series))

    assert spared > 0
    for endpoint in series:
        assert_complete(sim, endpoint, NOW + timedelta(seconds=4 * 1800))


def test_a_stream_that_another_process_loads_is_left_to_it_and_is_no_failure(sim: Sim) -> None:
    sim.ingest("accounts")

    with stream_lock(sim.settings().lake, "alerts"):
        [outcome] = sim.ingest("alerts")

    assert outcome.error is not None
    assert outcome.error.exit_code == 0
    assert sim.calls("alerts") == 0


def test_a_fan_out_whose_ids_another_process_loads_for_the_first_time_is_no_failure(
    sim: Sim,
) -> None:
    sim.ingest("accounts")

    with stream_lock(sim.settings().lake, "routers"):
        outcomes = sim.ingest("batteries")

    assert [outcome.error.exit_code for outcome in outcomes if outcome.error] == [0, 0]


def test_one_stream_that_fails_does_not_stop_the_others(sim: Sim) -> None:
    broken = SmallPages(sim, ENDPOINTS["alerts"], good=0)

    outcomes = sim.ingest("users", "alerts", transport=broken)

    by_name = {outcome.endpoint: outcome for outcome in outcomes}
    assert by_name["alerts"].error is not None
    assert by_name["users"].error is None
    assert by_name["users"].added == len(sim.truth("users"))


@pytest.mark.parametrize(
    "place", ["fleetlake.loading.lake_thread.commit_load", "fleetlake.loading.snapshots.read_pages"]
)
def test_an_unforeseen_error_in_one_stream_costs_only_that_stream(
    sim: Sim, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    real: Any = pkgutil.resolve_name(place)

    def failing(first: Any, second: Any, **options: Any) -> Any:
        if getattr(second, "endpoint", second).name == "users":
            raise IndexError(f"no such place; the key was {KEYS['mgr_api_key']}")
        return real(first, second, **options)

    monkeypatch.setattr(place, failing)
    outcomes = sim.ingest("users", "groups", "alerts")

    by_name = {outcome.endpoint: outcome for outcome in outcomes}
    assert by_name["groups"].added == len(sim.truth("groups"))
    assert by_name["alerts"].added == len(sim.truth("alerts", NOW - timedelta(seconds=60)))
    with pytest.raises(StreamFailed, match=r"users .* IndexError: no such place") as failure:
        raise_worst(outcomes)
    assert failure.value.exit_code == 1
    assert KEYS["mgr_api_key"] not in str(failure.value)


def test_a_bug_is_told_before_other_failures() -> None:
    failures = [LakeError("full"), StreamFailed("a bug"), LakeError("full")]
    outcomes = [Outcome(endpoint="users", error=failure) for failure in failures]

    with pytest.raises(StreamFailed):
        raise_worst(outcomes)


def test_refused_keys_end_the_run_at_once(sim: Sim) -> None:
    with pytest.raises(CredentialsRefused):
        ingest(sim.settings(mgr_api_key="wrong"), [], transport=sim.transport)

    assert sim.calls("accounts") == 1


def test_since_leaves_out_what_happened_before(sim: Sim, lake_of: Any) -> None:
    start = datetime(2026, 6, 15, tzinfo=UTC)

    sim.ingest("alerts", since=start)

    with lake_of(sim) as lake:
        [(oldest, kept)] = lake.rows("select min(created_at), count(*) from raw.alerts")
    before = sim.truth("alerts", until=start)
    until_settled = sim.truth("alerts", until=NOW - SETTLE)
    assert oldest >= start
    assert 0 < len(until_settled) - len(before) <= kept < len(until_settled)


def test_what_came_before_since_is_left_alone_by_later_loads_until_it_is_asked_for(
    sim: Sim, lake_of: Any
) -> None:
    start = datetime(2026, 6, 15, tzinfo=UTC)
    earlier = start - timedelta(days=1)

    def oldest_after(since: datetime | None) -> datetime:
        sim.ingest("alerts", since=since)
        with lake_of(sim) as lake:
            [(oldest,)] = lake.rows("select min(created_at) from raw.alerts")
        return oldest

    assert oldest_after(start) >= start
    assert oldest_after(None) >= start
    assert earlier <= oldest_after(earlier) < start
    assert earlier <= oldest_after(None) < start
    oldest_after(datetime(1970, 1, 1, tzinfo=UTC))
    assert_complete(sim, ENDPOINTS["alerts"])


def test_a_fan_out_brings_along_the_endpoint_that_lists_its_ids(sim: Sim, lake_of: Any) -> None:
    sim.ingest("batteries")

    with lake_of(sim) as lake:
        [(routers,)] = lake.rows("select count(*) from raw.routers")
    assert routers == len(sim.truth("routers"))


def test_raw_rows_hold_what_the_service_sent(sim: Sim, lake_of: Any) -> None:
    sim.ingest("alerts")

    with lake_of(sim) as lake:
        rows = lake.rows("select created_at_timeuuid, router_id, type, info from raw.alerts")
    truth = {r["created_at_timeuuid"]: r for r in sim.truth("alerts")}
    for timeuuid, router, kind, info in rows:
        record = truth[timeuuid]
        assert kind == record["type"]
        assert router == (int(record["router"].split("/")[-2]) if record["router"] else None)
        assert (info is None) == (record["info"] is None)


def test_a_service_that_keeps_to_its_contract_shows_no_drift(sim: Sim, lake_of: Any) -> None:
    sim.ingest()

    with lake_of(sim) as lake:
        assert lake.rows("select endpoint, member, example from meta.schema_drift") == []


def test_an_unknown_endpoint_is_refused_with_the_names_there_are(sim: Sim) -> None:
    with pytest.raises(FleetlakeError, match="no endpoint called 'alert'") as refusal:
        sim.ingest("alert")

    assert "alerts" in refusal.value.remedy
