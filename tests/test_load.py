"""Loads from the simulated service: every served record is in the lake, once.

Parametrised over the endpoint table, so that a new row is tested in the same way. The
truth comes from the simulator, never from our own output.
"""

import pkgutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from math import inf
from pathlib import Path
from typing import Any

import httpx
import pytest

from fleetlake.decoding.values import read_value
from fleetlake.endpoints import ENDPOINTS
from fleetlake.endpoints.model import Api, Endpoint, Mode
from fleetlake.errors import CredentialsRefused, FleetlakeError, LakeError, StreamBusy, StreamFailed
from fleetlake.lake import Lake, open_lake
from fleetlake.lake.commit import commit_load
from fleetlake.lake.loads import Batch
from fleetlake.lake.locks import stream_lock
from fleetlake.loading.ingest import ingest, raise_worst
from fleetlake.loading.outcome import Outcome
from fleetlake.planning.coverage import LOOKBACK
from tests.support.cases import ONE_OF_EACH_SORT, REQUESTED
from tests.support.sim import KEYS, NOW, Sim, copied, loaded_sim

SETTLE = timedelta(seconds=60)

events = [e for e in REQUESTED.values() if not e.is_snapshot]
ONE_OF_EACH = pytest.param([*ONE_OF_EACH_SORT.values()], id="one of each sort")
ALL = pytest.param([*REQUESTED.values()], id="all", marks=pytest.mark.release)
shares_a_load = pytest.mark.xdist_group("loads")  # of all endpoints, which takes seconds


@pytest.fixture
def lake_of() -> Callable[[Sim], Any]:
    """Return a function that opens a simulation's lake for reading."""
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
    """Return the keys in the lake, with duplicates; for a history, those of current versions."""
    listed = ", ".join(f'"{name}"' for name in endpoint.key)
    current = "where valid_to is null" if endpoint.mode is Mode.HISTORY else ""
    return sorted(lake.rows(f"select {listed} from raw.{endpoint.name} {current}"))


def flaws(
    sim: Sim, endpoints: Iterable[Endpoint] = REQUESTED.values(), now: datetime = NOW
) -> dict[str, dict[str, Any]]:
    """Return what is missing, duplicated or invented in the lake, without correct endpoints.

    The lake must have what the service had one settle time before its clock. A load may see a
    second or two more, but never anything that the service did not have.
    """
    found = {}
    with open_lake(sim.settings().lake, read_only=True) as lake:
        for endpoint in endpoints:
            kept = keys_in(lake, endpoint)
            until = None if endpoint.is_snapshot else now - SETTLE
            wanted = {key_of(endpoint, record) for record in sim.truth(endpoint.name, until)}
            ever = {key_of(endpoint, record) for record in sim.truth(endpoint.name)}
            seen = {
                "doubled": len(kept) - len(set(kept)),
                "lost": wanted - set(kept),
                "invented": set(kept) - ever,
                "served nothing": not wanted,
            }
            found[endpoint.name] = {what: keys for what, keys in seen.items() if keys}
    return {name: seen for name, seen in found.items() if seen}


def assert_complete(sim: Sim, endpoint: Endpoint, now: datetime = NOW) -> None:
    """Assert that the lake has every record of the service, once."""
    assert flaws(sim, [endpoint], now) == {}


@pytest.fixture(scope="module")
def first_load(empty_lake: Path, tmp_path_factory: pytest.TempPathFactory) -> Sim:
    """Return a service with every endpoint loaded once, for reading only."""
    return loaded_sim(tmp_path_factory.mktemp("first-load"), empty_lake)


@pytest.fixture
def loaded(first_load: Sim, tmp_path: Path) -> Sim:
    """Return a service with every endpoint loaded once, and its own copy of the lake."""
    return copied(first_load, tmp_path)


@shares_a_load
def test_every_record_of_the_service_is_in_the_lake_once(first_load: Sim) -> None:
    assert flaws(first_load) == {}


@pytest.mark.proof
@shares_a_load
def test_a_list_read_again_with_other_hosts_in_every_url_changes_no_row(make_sim: Any) -> None:
    sim = make_sim(scenario="shard-hosts", days=1)
    lists = [name for name, endpoint in REQUESTED.items() if endpoint.is_snapshot]
    raise_worst(sim.ingest(*lists))
    before = rows_of(sim, lists)

    outcomes = sim.ingest(*lists)

    assert {o.endpoint: (o.added, o.changed, o.error) for o in outcomes} == dict.fromkeys(
        lists, (0, 0, None)
    )
    assert rows_of(sim, lists) == before
    with open_lake(sim.settings().lake, read_only=True) as lake:
        assert lake.rows("select endpoint, member from meta.schema_drift") == []
        relations = "select id, configuration_manager_id from raw.routers order by id"
        assert lake.rows(relations) == [
            (int(router["id"]), int(router["configuration_manager"].split("/")[-3]))
            for router in sim.truth("routers")
        ]


def rows_of(sim: Sim, names: Iterable[str]) -> dict[str, list[tuple[Any, ...]]]:
    with open_lake(sim.settings().lake, read_only=True) as lake:
        return {name: lake.rows(f"select * from raw.{name} order by all") for name in names}


@shares_a_load
def test_a_second_load_with_nothing_new_adds_nothing_and_makes_one_request_per_fan_out_call(
    loaded: Sim,
) -> None:
    routers = len(loaded.truth("routers"))

    outcomes = {outcome.endpoint: outcome for outcome in loaded.ingest(*(e.name for e in events))}

    one_id_a_call = {e.name for e in events if e.fan_out and e.fan_out.ids_per_call == 1}
    assert {outcomes[e.name].error for e in events} == {None}
    assert {(outcomes[e.name].added, outcomes[e.name].changed) for e in events} == {(0, 0)}
    assert {e.name: loaded.calls(e.name) for e in events} == {
        e.name: routers if e.name in one_id_a_call else 1 for e in events
    }


@shares_a_load
@pytest.mark.parametrize("endpoints", [ONE_OF_EACH, ALL])
def test_a_load_after_a_day_walks_small_pages_to_the_end_and_adds_what_is_new(
    loaded: Sim, endpoints: list[Endpoint]
) -> None:
    loaded.advance(86_400)
    lists = {e.fan_out.source for e in endpoints if e.fan_out}  # they have the new ids
    names = {*lists, *(e.name for e in endpoints)}

    loaded.ingest(*names, transport=SmallPages(loaded, endpoints))

    assert flaws(loaded, endpoints, NOW + timedelta(days=1)) == {}


@pytest.mark.parametrize("endpoints", [ONE_OF_EACH, ALL])
def test_occasional_errors_lose_and_duplicate_nothing(
    make_sim: Any, endpoints: list[Endpoint]
) -> None:
    sim = make_sim(days=1)
    kinds = ("status_500", "status_429", "reset", "truncate", "html", "no_data")
    sim.faults(**dict.fromkeys(kinds, 0.05))

    sim.ingest(*(e.name for e in endpoints))

    assert flaws(sim, endpoints) == {}


class SmallPages(httpx.AsyncBaseTransport):
    """A service with small pages that responds to some endpoints only a limited number of times."""

    def __init__(self, sim: Sim, endpoints: Iterable[Endpoint], *, good: float = inf) -> None:
        self._inner = sim.transport
        self._endpoints = [*endpoints]
        self._good = {e.name: good for e in self._endpoints}

    @staticmethod
    def limit(endpoint: Endpoint) -> int:
        """Return the number of records per page of the endpoint."""
        return 100 if endpoint.fan_out else 2 if endpoint.is_snapshot else 20

    def _requested(self, url: httpx.URL) -> Endpoint | None:
        """Return the endpoint of a request; one that requests ids may share another's path."""
        all_ = [e for e in self._endpoints if url.path == f"/api/{e.api}/{e.path}"]
        by_ids = [e for e in all_ if e.fan_out and e.fan_out.parameter in url.params]
        return next(iter(by_ids or all_), None)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if endpoint := self._requested(request.url):
            size = "limit" if endpoint.api is Api.V2 else "page[size]"
            if request.url.params.get(size) != "1":  # because one call reads the clock
                self._good[endpoint.name] -= 1
                if self._good[endpoint.name] < 0:
                    return httpx.Response(500, text="internal error shard-router-3")
                request.url = request.url.copy_set_param(size, str(self.limit(endpoint)))
        return await self._inner.handle_async_request(request)


@pytest.mark.proof
@pytest.mark.parametrize("endpoints", [ONE_OF_EACH, ALL])
def test_a_second_page_that_keeps_failing_is_an_error_and_the_next_load_completes_it(
    make_sim: Any, lake_of: Any, endpoints: list[Endpoint]
) -> None:
    sim = make_sim(days=1)
    sources = {e.fan_out.source for e in endpoints if e.fan_out}
    listing = [e for e in ENDPOINTS.values() if e.name in sources]
    others = [e for e in endpoints if e.name not in sources]
    errors, kept = {}, {}
    for some in (listing, others):
        names = [endpoint.name for endpoint in some]
        outcomes = sim.ingest(*names, transport=SmallPages(sim, some, good=1))
        errors |= {outcome.endpoint: str(outcome.error) for outcome in outcomes}
        with lake_of(sim) as lake:
            kept |= {endpoint.name: len(keys_in(lake, endpoint)) for endpoint in some}
        sim.ingest(*names)

    # A list that fits on one page has no second page.
    read = [*listing, *others]
    served = {e.name: len(sim.truth(e.name)) for e in read}
    met = {e.name for e in read if served[e.name] > SmallPages.limit(e)}
    assert flaws(sim, read) == {}
    assert len(met) > len(read) / 2
    assert {name for name in met if "returned 500" not in errors[name]} == set()
    assert {name for name in met if kept[name] >= served[name]} == set()


class Crash(BaseException):
    """Stands for the death of the process."""


@contextmanager
def crash_at(moment: str, name: str) -> Iterator[None]:
    """Let the process die right before or right after the first commit of an endpoint."""

    def commit(lake: Lake, batch: Batch, *proven: Any, **options: Any) -> Any:
        if batch.endpoint.name != name:
            return commit_load(lake, batch, *proven, **options)
        if moment == "after commit":
            commit_load(lake, batch, *proven, **options)
        raise Crash

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fleetlake.loading.run.commit_load", commit)
        yield


@pytest.mark.proof
@pytest.mark.parametrize("moment", ["after commit", "before commit"])
@pytest.mark.parametrize("endpoints", [ONE_OF_EACH, ALL])
def test_the_next_load_completes_loads_that_crashed_around_their_commit(
    make_sim: Any, endpoints: list[Endpoint], moment: str
) -> None:
    sim = make_sim(days=1)
    for endpoint in endpoints:
        with crash_at(moment, endpoint.name), pytest.raises(Crash):
            sim.ingest(endpoint.name)

    sim.ingest(*(endpoint.name for endpoint in endpoints))

    assert flaws(sim, endpoints) == {}


@pytest.mark.proof
def test_ids_that_did_not_move_are_skipped_and_nothing_is_missed(make_sim: Any) -> None:
    sim = make_sim(days=1)
    bulk = ["locations", "net_device_metrics"]
    series = [e for e in events if e.fan_out and e.fan_out.moved]
    skipped = 0
    for _ in range(3):
        outcomes = sim.ingest(*bulk, *(e.name for e in series))
        skipped += sum(outcome.skipped for outcome in outcomes)
        sim.advance(1800)
    sim.ingest(*bulk, *(e.name for e in series))

    assert skipped > 0
    assert flaws(sim, series, NOW + timedelta(seconds=3 * 1800)) == {}


def test_a_fan_out_without_a_record_is_proven_all_the_same(make_sim: Any, lake_of: Any) -> None:
    sim = make_sim(routers=1)
    start = NOW - SETTLE - LOOKBACK - timedelta(minutes=1)

    [_, outcome] = sim.ingest("routers", "router_logs", since=start)

    with lake_of(sim) as lake:
        proven = lake.rows(
            "select partition, start_at from meta.intervals where endpoint = 'router_logs'"
        )
    assert (outcome.endpoint, outcome.added, outcome.error) == ("router_logs", 0, None)
    assert proven == [(record["id"], start) for record in sim.truth("routers")]


def test_a_stream_that_another_process_loads_is_skipped_and_not_a_failure(sim: Sim) -> None:
    sim.ingest("accounts")

    with stream_lock(sim.settings().lake, "alerts"):
        [outcome] = sim.ingest("alerts")

    assert isinstance(outcome.error, StreamBusy)
    raise_worst([outcome])
    raise_worst([outcome], named=["alerts"])
    assert sim.calls("alerts") == 0


def test_a_fan_out_whose_ids_another_process_loads_first_is_not_a_failure(
    sim: Sim,
) -> None:
    sim.ingest("accounts")

    with stream_lock(sim.settings().lake, "routers"):
        outcomes = sim.ingest("batteries")

    errors = [outcome.error for outcome in outcomes if outcome.error]
    assert [type(error) for error in errors] == [StreamBusy, StreamBusy]
    raise_worst(outcomes, named=["batteries"])


def test_one_stream_that_fails_does_not_stop_the_others(sim: Sim) -> None:
    broken = SmallPages(sim, [ENDPOINTS["alerts"]], good=0)

    outcomes = sim.ingest("users", "alerts", transport=broken)

    by_name = {outcome.endpoint: outcome for outcome in outcomes}
    assert by_name["alerts"].error is not None
    assert by_name["users"].error is None
    assert by_name["users"].added == len(sim.truth("users"))


@pytest.mark.parametrize(
    "place", ["fleetlake.loading.run.commit_load", "fleetlake.loading.stream_loads.read_pages"]
)
def test_an_unexpected_error_in_one_stream_ends_only_that_stream(
    sim: Sim, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    real: Any = pkgutil.resolve_name(place)

    def failing(first: Any, second: Any, *others: Any, **options: Any) -> Any:
        if getattr(second, "endpoint", second).name == "users":
            raise IndexError(f"no such place; the key was {KEYS['mgr_api_key']}")
        return real(first, second, *others, **options)

    monkeypatch.setattr(place, failing)
    outcomes = sim.ingest("users", "groups", "alerts")

    by_name = {outcome.endpoint: outcome for outcome in outcomes}
    assert by_name["groups"].added == len(sim.truth("groups"))
    assert by_name["alerts"].added == len(sim.truth("alerts", NOW - timedelta(seconds=60)))
    with pytest.raises(StreamFailed, match=r"users .* IndexError: no such place") as failure:
        raise_worst(outcomes)
    assert failure.value.exit_code == 1
    assert KEYS["mgr_api_key"] not in str(failure.value)


def test_a_bug_is_reported_before_other_failures() -> None:
    failures = [LakeError("full"), StreamFailed("a bug"), LakeError("full")]
    outcomes = [Outcome(endpoint="users", error=failure) for failure in failures]

    with pytest.raises(StreamFailed):
        raise_worst(outcomes)


def test_refused_keys_end_the_run_at_once(sim: Sim) -> None:
    with pytest.raises(CredentialsRefused):
        ingest(sim.settings(mgr_api_key="wrong"), [], transport=sim.transport)

    assert sim.calls("accounts") == 1


def test_since_leaves_out_earlier_records(sim: Sim, lake_of: Any) -> None:
    start = datetime(2026, 6, 15, tzinfo=UTC)

    sim.ingest("alerts", since=start)

    with lake_of(sim) as lake:
        [(oldest, kept)] = lake.rows("select min(created_at), count(*) from raw.alerts")
    before = sim.truth("alerts", until=start)
    until_settled = sim.truth("alerts", until=NOW - SETTLE)
    assert oldest >= start
    assert 0 < len(until_settled) - len(before) <= kept < len(until_settled)


@pytest.mark.proof
def test_later_loads_ignore_records_before_since_until_they_are_requested(
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


def test_the_next_load_completes_a_load_since_an_earlier_time_that_failed(
    sim: Sim, lake_of: Any
) -> None:
    start = datetime(2026, 6, 15, tzinfo=UTC)
    earlier = start - timedelta(days=1)
    failing = SmallPages(sim, [ENDPOINTS["alerts"]], good=0)
    sim.ingest("alerts", since=start)
    [failed] = sim.ingest("alerts", since=earlier, transport=failing)

    [completed] = sim.ingest("alerts")

    with lake_of(sim) as lake:
        [(oldest,)] = lake.rows("select min(created_at) from raw.alerts")
    assert (failed.added, completed.error) == (0, None)
    assert earlier <= oldest < start


def test_a_fan_out_also_loads_the_endpoint_that_lists_its_ids(sim: Sim, lake_of: Any) -> None:
    sim.ingest("batteries")

    with lake_of(sim) as lake:
        [(routers,)] = lake.rows("select count(*) from raw.routers")
    assert routers == len(sim.truth("routers"))


def test_raw_rows_have_the_values_that_the_service_sent(sim: Sim, lake_of: Any) -> None:
    sim.ingest("alerts")

    with lake_of(sim) as lake:
        rows = lake.rows("select created_at_timeuuid, router_id, type, info from raw.alerts")
    truth = {r["created_at_timeuuid"]: r for r in sim.truth("alerts")}
    for timeuuid, router, kind, info in rows:
        record = truth[timeuuid]
        assert kind == record["type"]
        assert router == (int(record["router"].split("/")[-2]) if record["router"] else None)
        assert (info is None) == (record["info"] is None)


@shares_a_load
def test_a_service_that_keeps_to_its_contract_shows_no_drift(first_load: Sim, lake_of: Any) -> None:
    with lake_of(first_load) as lake:
        assert lake.rows("select endpoint, member, example from meta.schema_drift") == []


def test_an_unknown_endpoint_is_refused_with_the_valid_names(sim: Sim) -> None:
    with pytest.raises(FleetlakeError, match="no endpoint called 'alert'") as refusal:
        sim.ingest("alert")

    assert "alerts" in refusal.value.remedy
