"""Each flow runs once under a real Prefect server, and the lake then holds the truth."""
# ruff: noqa: PLC0415 - Prefect reads its settings when it is imported: not before the fixture

import importlib
import json
from collections.abc import Iterator
from functools import partial
from itertools import chain, repeat

import duckdb
import pytest

from fleetlake.endpoints import ENDPOINTS
from fleetlake.endpoints.model import Api, Mode
from fleetlake.lake import open_lake
from fleetlake.planning.coverage import SETTLE
from tests.flows.cases import OUT_OF_BOUNDS, answer_of_server

pytestmark = [
    pytest.mark.proof,
    pytest.mark.xdist_group("prefect"),
    pytest.mark.usefixtures("prefect_server"),
    # Prefect's clients leave connections to its own server to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket.socket:ResourceWarning"),
]


def rows_in(lake_path, until):
    """Return the rows of each raw table: events before `until`, current versions of histories.

    The client's estimate of the service's clock advances while the simulated clock stands still,
    so a load may add events of the following second.
    """
    with open_lake(lake_path, read_only=True) as lake:
        return {
            name: lake.rows(count_of(endpoint), [until])[0][0]
            for name, endpoint in ENDPOINTS.items()
            if endpoint.api is Api.V2
        }


def count_of(endpoint):
    is_counted = f'"{endpoint.event_time}" < ?' if endpoint.event_time else "? is not null"
    is_now = "valid_to is null" if endpoint.mode is Mode.HISTORY else "true"
    return f"select count(*) from raw.{endpoint.name} where {is_counted} and {is_now}"


def artifacts(*keys):
    from prefect.artifacts import Artifact

    return {key: Artifact.get(key, _sync=True) for key in keys}


def test_groups_loaded_in_sequence_load_every_record_once(
    remote_sim, worker_environment, monkeypatch
):
    from fleetlake.endpoints.model import Group
    from flows import build
    from flows.ingest import ingest
    from flows.maintain import nightly, retention_watch

    for group in sorted(Group, key=lambda group: group is not Group.INVENTORY):
        state = ingest(group, return_state=True)
        assert state.is_completed(), state.message
    # Building all marts takes a minute; tests/marts covers them.
    few = partial(build.build_lake_marts, select="+battery_health")
    monkeypatch.setattr(build, "build_lake_marts", few)
    build.build_marts()
    build.publish()
    nightly(days=1)
    retention_watch()

    until = remote_sim.now() - SETTLE
    held = rows_in(worker_environment / "lake", until)
    assert held == {name: len(remote_sim.truth(name, until.isoformat())) for name in held}
    with duckdb.connect(worker_environment / "published" / "fleet.duckdb", read_only=True) as marts:
        assert marts.sql("select count(*) from battery_health").fetchall()[0][0] > 0
    written = artifacts(
        "ingest-events",
        "ingest-events-summary",
        "marts",
        "published",
        "verify",
        "retention",
        "maintain-summary",
    )
    assert all(written.values())
    assert '"endpoint": "alerts"' in written["ingest-events"].data
    assert "rows added" in written["ingest-events-summary"].data
    assert "of them written from rows" in written["maintain-summary"].data


@pytest.mark.release
def test_shards_of_a_group_together_load_every_record_once(
    remote_sim, worker_environment, monkeypatch
):
    from fleetlake.endpoints.model import Group
    from fleetlake.endpoints.relations import endpoints_of
    from flows import ingest as flow

    started = []
    monkeypatch.setattr(
        flow, "run_deployment", lambda name, **options: started.append((name, options))
    )

    flow.ingest(Group.INVENTORY)
    flow.ingest(Group.SERIES, shards=2)
    ends = [flow.ingest_shard(**options["parameters"], return_state=True) for _, options in started]

    assert [name for name, _ in started] == ["ingest_shard/shard"] * 2
    assert [state.name for state in ends] == ["Completed"] * 2
    until = remote_sim.now() - SETTLE
    held = rows_in(worker_environment / "lake", until)
    series = endpoints_of(Group.SERIES)
    assert {n: held[n] for n in series} == {
        n: len(remote_sim.truth(n, until.isoformat())) for n in series
    }
    assert artifacts("ingest-series-2-of-2")["ingest-series-2-of-2"].data


def test_each_shard_is_started_once_though_the_server_is_down_for_a_while(monkeypatch):
    from prefect import flow as a_flow

    from fleetlake.endpoints.model import Group
    from flows import ingest as flow

    started, faults = {}, chain([None, answer_of_server(503)], repeat(None))

    def run_deployment(_name, **options):
        if fault := next(faults):
            raise fault
        started.setdefault(options["idempotency_key"], []).append(options["flow_run_name"])

    monkeypatch.setattr(flow, "run_deployment", run_deployment)
    start = flow.start_shards.with_options(retries=1, retry_delay_seconds=0)

    @a_flow
    def divided():
        start(Group.SERIES, 3)

    divided()
    divided()

    assert len(started) == 6
    assert sorted(map(len, started.values())) == [1] * 5 + [2]


@pytest.mark.parametrize(("module", "name", "parameters"), OUT_OF_BOUNDS)
def test_invalid_number_is_refused_by_the_server_when_a_run_is_requested(
    prefect_server, module, name, parameters
):
    flow = getattr(importlib.import_module(f"flows.{module}"), name)
    deployment = flow.to_deployment(f"bounds of {name}", _sync=True).apply(_sync=True)

    refused = prefect_server.call(
        "POST",
        f"deployments/{deployment}/create_flow_run",
        json={"parameters": json.loads(json.dumps(parameters, default=str))},
    )
    prefect_server.call("DELETE", f"deployments/{deployment}").raise_for_status()

    assert refused.is_client_error, refused.text
    assert next(reversed(parameters)) in refused.text


@pytest.fixture
def no_profiles_afterwards() -> Iterator[None]:
    """Remove the block of profiles again: other tests' flows would read those accounts too."""
    from prefect.blocks.system import Secret

    yield
    Secret.delete("fleetlake-profiles")


@pytest.mark.usefixtures("worker_environment", "no_profiles_afterwards")
def test_profiles_come_from_a_secret_block_and_the_environment_takes_precedence(monkeypatch):
    from fleetlake.cli.prefect.setup import put_secrets
    from fleetlake.settings import KEY_SETTINGS, load_settings
    from flows.credentials import settings_of_run

    for profile in ("NORTH", "SOUTH"):
        for name in KEY_SETTINGS:
            monkeypatch.setenv(f"FLEETLAKE_PROFILES__{profile}__{name.upper()}", "as-stored")
    monkeypatch.setenv("FLEETLAKE_PROFILES__NORTH__CALLS_PER_MINUTE", "7")
    load_settings.cache_clear()
    assert "fleetlake-profiles" in put_secrets(load_settings())
    for name in KEY_SETTINGS:
        monkeypatch.delenv(f"FLEETLAKE_PROFILES__NORTH__{name.upper()}")
        monkeypatch.setenv(f"FLEETLAKE_PROFILES__SOUTH__{name.upper()}", "from-the-environment")
    monkeypatch.delenv("FLEETLAKE_PROFILES__NORTH__CALLS_PER_MINUTE")
    load_settings.cache_clear()

    _, north, south = settings_of_run().accounts()

    assert (north.profile, set(north.keys().values())) == ("north", {"as-stored"})
    assert (north.calls_per_minute, south.calls_per_minute) == (7, 0)
    assert (south.profile, set(south.keys().values())) == ("south", {"from-the-environment"})
    assert "as-stored" not in repr(settings_of_run())
