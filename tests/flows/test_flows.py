"""Flows without Prefect's server (`make test`); `make proofs` runs them with a real server."""
# ruff: noqa: PLC0415 - Prefect reads its settings when it is imported: not before the fixture

import doctest
import importlib
import inspect
from datetime import datetime, timedelta
from types import SimpleNamespace

import httpx
import pytest

from fleetlake import errors
from fleetlake.care.maintenance import KEEP_SNAPSHOTS, Maintained
from fleetlake.endpoints import ENDPOINTS
from fleetlake.errors import (
    BuildFailed,
    CredentialsRefused,
    FleetlakeError,
    StreamBusy,
    Throttled,
    Unreachable,
    UsageError,
)
from fleetlake.lake import open_lake
from fleetlake.lake.locks import stream_lock
from fleetlake.loading.outcome import Outcome
from fleetlake.monitoring.status import LakeStatus
from fleetlake.planning.coverage import SETTLE
from fleetlake.planning.shards import WHOLE, Shard
from fleetlake.settings import KEY_SETTINGS, Settings
from tests.flows.alone import let_read
from tests.flows.cases import OUT_OF_BOUNDS, REFUSED_BACKFILLS, answer_of_server
from tests.flows.server import ROOT
from tests.support.sim import NOW
from tests.test_load import SmallPages, assert_complete, keys_in

pytestmark = [
    pytest.mark.xdist_group("prefect"),
    pytest.mark.usefixtures("prefect_home"),
    # With a server in this process, Prefect's clients leave connections to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket.socket:ResourceWarning"),
]


@pytest.fixture
def sim(make_sim):
    """Return a service with few records: loads are covered by tests/test_load.py."""
    return make_sim(routers=3, days=1)


HAS_CHANGED = "fleetlake.has-changed"
MAINTAINED = Maintained(
    files_written=2, files_before=12, files_after=7, snapshots_expired=0, files_removed=0
)


def test_a_group_is_loaded_whole_and_reported_and_nothing_is_added_twice(alone, sim, monkeypatch):
    from fleetlake.endpoints.model import Group
    from fleetlake.endpoints.relations import endpoints_of
    from flows.ingest import ingest

    let_read(sim, monkeypatch)

    first, again = ingest.fn(Group.ACTIVITY), ingest.fn(Group.ACTIVITY)

    names = endpoints_of(Group.ACTIVITY)
    for name in names:
        assert_complete(sim, ENDPOINTS[name])
    with open_lake(sim.settings().lake, read_only=True) as lake:
        [(held,)] = lake.rows(f"select {' + '.join(map(count_of, names))}")
    loads = [event for name, event in alone.events if name == "fleetlake.ingest.completed"]
    assert (first.is_completed(), first.name) == (True, "Completed")
    assert first.message == f"{held:,} rows added, 0 changed."
    assert again.message == "0 rows added, 0 changed."
    assert [load["resource"][HAS_CHANGED] for load in loads] == ["true", "false"]
    assert [load["payload"]["added"] for load in loads] == [held, 0]
    rows = alone.artifacts["ingest-activity"]
    assert {row["endpoint"].replace("\\", "") for row in rows} == set(names)
    assert "0 rows added" in alone.artifacts["ingest-activity-summary"]


def count_of(table: str) -> str:
    return f"(select count(*) from raw.{table})"


def test_a_load_that_was_left_out_is_reported_as_one_that_changed_nothing(alone):
    from flows.reports import report_ingest
    from flows.signals import LakeState

    spared = Outcome(endpoint="alerts", spared=1)
    state = LakeState(now=NOW, status=LakeStatus(streams=[], open_gaps=[]))

    report_ingest("events", WHOLE, [spared], state, [])

    [(_, event)] = alone.events
    assert (event["resource"][HAS_CHANGED], event["payload"]["spared"]) == ("false", 1)
    [row] = alone.artifacts["ingest-events"]
    assert row["note"] == "not due because pushes bring it"


@pytest.mark.proof
def test_a_failed_stream_fails_the_run_after_the_others_were_reported(alone, sim, monkeypatch):
    from fleetlake.endpoints.model import Group
    from fleetlake.endpoints.relations import endpoints_of
    from flows.ingest import ingest

    failing, *others = endpoints_of(Group.EVENTS)
    let_read(sim, monkeypatch, SmallPages(sim, [ENDPOINTS[failing]], good=0))

    with pytest.raises(Unreachable, match=failing):
        ingest.fn(Group.EVENTS)

    [load] = [event for name, event in alone.events if name == "fleetlake.ingest.completed"]
    assert load["payload"]["failed"] == [failing]
    for name in others:
        assert_complete(sim, ENDPOINTS[name])


def test_a_sharded_run_starts_each_shard_once_and_loads_the_indivisible_endpoints(
    alone, monkeypatch
):
    from fleetlake.endpoints.model import Group
    from flows import ingest as flow

    loaded = []

    def note(group, shard=WHOLE, *, is_divisible=None, **_):
        loaded.append((group, shard, is_divisible))
        return []

    monkeypatch.setattr(flow, "load_streams", note)
    flow.ingest.fn(Group.SERIES, shards=2)
    started = list(alone.started)
    flow.ingest.fn(Group.EVENTS, shards=2)
    flow.ingest.fn(Group.SERIES)
    for _, options in started:
        flow.ingest_shard.fn(**options["parameters"])

    assert alone.started == started
    assert [name for name, _ in started] == ["ingest_shard/shard"] * 2
    assert len({options["idempotency_key"] for _, options in started}) == 2
    assert {options["timeout"] for _, options in started} == {0}
    assert loaded == [
        (Group.SERIES, WHOLE, False),
        (Group.EVENTS, WHOLE, None),
        (Group.SERIES, WHOLE, None),
        (Group.SERIES, Shard(1, 2), True),
        (Group.SERIES, Shard(2, 2), True),
    ]


def test_run_ends_as_skipped_if_every_stream_is_busy(alone, sim, monkeypatch):
    from fleetlake.endpoints.model import Group
    from flows.ingest import ingest

    let_read(sim, monkeypatch)
    with stream_lock(sim.settings().lake, "activity_logs"):
        state = ingest.fn(Group.ACTIVITY)

    assert (state.is_completed(), state.name) == (True, "Skipped")
    assert "activity_logs" in state.message
    assert alone.artifacts["ingest-activity"]


@pytest.mark.proof
def test_backfill_reads_a_range_slice_by_slice_and_shows_its_progress(alone, sim, monkeypatch):
    from flows.backfill import backfill

    let_read(sim, monkeypatch)
    start, end = NOW - timedelta(hours=9), NOW - SETTLE
    first = backfill.fn("alerts", start, end, slice_hours=4)
    again = backfill.fn("alerts", start.replace(tzinfo=None), end.replace(tzinfo=None))

    truth = [
        record
        for record in sim.truth("alerts", end)
        if datetime.fromisoformat(record["created_at"]) >= start
    ]
    assert first.message == f"{len(truth):,} rows added in 3 slices."
    assert again.message == "0 rows added in 1 slice."
    assert alone.artifacts["backfill-alerts"] == 100
    with (
        stream_lock(sim.settings().lake, "alerts"),
        pytest.raises(StreamBusy),
    ):  # for the task to retry
        backfill.fn("alerts", start, end)


@pytest.mark.parametrize(("parameters", "reported"), REFUSED_BACKFILLS)
def test_impossible_backfill_is_refused_with_an_explanation_before_it_shows_progress(
    alone, parameters, reported
):
    from flows.backfill import backfill

    with pytest.raises(UsageError) as refused:
        backfill.fn(**parameters)

    assert reported in str(refused.value)
    assert not alone.artifacts


@pytest.mark.parametrize(("module", "name", "parameters"), OUT_OF_BOUNDS)
def test_invalid_number_is_refused(module, name, parameters):
    from prefect.exceptions import ParameterTypeError

    flow = getattr(importlib.import_module(f"flows.{module}"), name)

    with pytest.raises(ParameterTypeError, match=next(reversed(parameters))):
        flow.validate_parameters(parameters)


@pytest.mark.proof
def test_nightly_reloads_missing_records_retries_quarantine_and_maintains(alone, sim, monkeypatch):
    from flows import maintain as flow

    kept = []

    def maintain(_, *, keep, days):
        assert days == {}  # no rule of retention
        kept.append(keep)
        return MAINTAINED

    let_read(sim, monkeypatch)
    monkeypatch.setattr(flow, "maintain_lake", maintain)
    sim.ingest("alerts")
    with open_lake(sim.settings().lake) as lake:
        fifth = "(select created_at from raw.alerts order by created_at desc offset 5 limit 1)"
        read = keys_in(lake, ENDPOINTS["alerts"])
        lake.execute(f"delete from raw.alerts where created_at = {fifth}")

    missing, found = flow.nightly.fn(days=1), flow.nightly.fn(days=1)
    watched = flow.retention_watch.fn()

    assert missing.message == "1 record missing in 1 streams."
    assert found.message == "0 records missing in 1 streams."
    with open_lake(sim.settings().lake, read_only=True) as lake:
        assert keys_in(lake, ENDPOINTS["alerts"]) == read
    assert [row["endpoint"] for row in alone.artifacts["verify"]] == ["alerts"]
    assert kept == [KEEP_SNAPSHOTS] * 2
    assert "12 data files became 7" in alone.artifacts["maintain-summary"]
    assert watched.message == "0 streams at risk."
    assert "nothing is at risk" in alone.artifacts["retention-summary"]


def test_maintenance_reports_written_files_and_merged_files_separately(monkeypatch):
    from flows import maintain as flow

    monkeypatch.setattr(flow, "compact", lambda _: MAINTAINED)
    monkeypatch.setattr(flow, "renew_copies", lambda: None)

    assert flow.maintain.fn().message == "2 files written; 12 files became 7."


def test_maintenance_ends_as_skipped_if_loads_never_stop(monkeypatch):
    from flows import maintain as flow

    def held(_):
        raise StreamBusy("alerts is being loaded.")

    monkeypatch.setattr(flow, "compact", held)

    assert flow.maintain.fn().name == "Skipped"


@pytest.mark.usefixtures("alone")
def test_queued_builds_stay_queued_if_the_build_before_them_fails(monkeypatch):
    from flows import build

    def fail(**_options):
        raise ValueError("a model failed")

    skipped = []
    monkeypatch.setattr(build, "waiting_runs", lambda: ["another"])
    monkeypatch.setattr(build, "skip", skipped.extend)
    monkeypatch.setattr(build, "build_models", fail)

    with pytest.raises(ValueError, match="a model failed"):
        build.build_marts.fn()
    assert skipped == []
    monkeypatch.setattr(build, "build_models", lambda **_: SimpleNamespace(models=[], seconds=1.0))
    monkeypatch.setattr(build, "publish_snapshot", lambda: None)
    build.build_marts.fn()
    assert skipped == ["another"]


@pytest.mark.parametrize("is_partial", [True, False])
def test_the_marts_beside_a_failed_one_are_published(monkeypatch, is_partial):
    from flows import build

    def fail(**_):
        raise BuildFailed("a model failed", is_partial=is_partial)

    published = []
    monkeypatch.setattr(build, "waiting_runs", list)
    monkeypatch.setattr(build, "build_models", fail)
    monkeypatch.setattr(build, "publish_snapshot", lambda: published.append("now"))

    with pytest.raises(BuildFailed, match="a model failed"):
        build.build_marts.fn()
    assert published == ["now"] * is_partial


def test_keys_come_from_secret_blocks_if_the_environment_has_none(alone, sim, monkeypatch):
    from flows import credentials
    from flows.credentials import settings_of_run

    given = sim.settings(mgr_api_key="", portal_api_id="from-the-environment")
    monkeypatch.setattr(credentials, "load_settings", lambda: given)
    account = dict.fromkeys(KEY_SETTINGS, "from-a-block") | {"calls_per_minute": 7}
    alone.blocks |= {
        "fleetlake-mgr-api-key": "from-a-block",
        "fleetlake-portal-api-id": "from-a-block",
        "fleetlake-profiles": {"north": account},
    }

    settings = settings_of_run()

    assert settings.mgr_api_key.get_secret_value() == "from-a-block"
    assert settings.portal_api_id.get_secret_value() == "from-the-environment"
    assert settings.profiles["north"].calls_per_minute == 7
    assert "from-a-block" not in repr(settings)
    assert isinstance(settings, Settings)


def test_refused_keys_fail_the_run_and_are_not_shown(alone, sim, monkeypatch):
    from fleetlake.endpoints.model import Group
    from flows import credentials
    from flows import ingest as flow

    let_read(sim, monkeypatch)
    wrong = sim.settings(mgr_api_key="wrong-and-secret")
    monkeypatch.setattr(credentials, "load_settings", lambda: wrong)

    with pytest.raises(CredentialsRefused) as refused:
        flow.ingest.fn(Group.ACTIVITY)

    assert "wrong-and-secret" not in f"{refused.value!r} {alone}"


def test_an_alarm_is_a_failed_run_that_shows_its_reason(alone):
    from flows.alarm import alarm

    state = alarm.fn("fleetlake.gap.recorded", "activity_logs", "Two hours are *lost*.")

    assert (state.is_failed(), state.name) == (True, "Alarm")
    assert state.message == "Two hours are *lost*."
    assert r"Two hours are \*lost\*" in alone.artifacts["alarm-activity-logs"]


@pytest.mark.parametrize(
    ("error", "is_worth_it"),
    [
        (Throttled("again later"), True),
        (StreamBusy("held"), True),
        (CredentialsRefused("wrong key"), False),
        (BuildFailed("a test found rows"), False),
        (ValueError("a bug"), False),
        (httpx.ConnectError("the server is being started again"), True),
        (answer_of_server(503), True),
        (answer_of_server(404), False),
    ],
)
def test_task_retries_transient_errors(error, is_worth_it):
    from prefect.states import Failed

    from flows.retries import is_worth_retrying

    assert is_worth_retrying(None, None, Failed(data=error)) is is_worth_it


def test_task_retries_exactly_the_errors_that_are_transient():
    from prefect.states import Failed

    from flows.retries import is_worth_retrying

    kinds = [k for _, k in inspect.getmembers(errors, inspect.isclass)]
    kinds = [k for k in kinds if issubclass(k, FleetlakeError)]
    retried = {k for k in kinds if is_worth_retrying(None, None, Failed(data=k("x")))}

    assert retried == {k for k in kinds if k.is_transient}


def test_every_task_uses_the_common_retry_rule():
    from prefect.tasks import Task

    from flows.retries import is_worth_retrying

    modules = [importlib.import_module(f"flows.{file.stem}") for file in FLOWS]
    tasks = {task for module in modules for task in vars(module).values() if type(task) is Task}

    assert len(tasks) >= 7
    assert {task.retry_condition_fn for task in tasks} == {is_worth_retrying}


FLOWS = sorted((ROOT / "flows").glob("*.py"))
DOCTESTED = [file.stem for file in FLOWS if ">>>" in file.read_text()]


@pytest.mark.parametrize("name", DOCTESTED)
def test_docstring_examples_are_correct(name):
    result = doctest.testmod(importlib.import_module(f"flows.{name}"))

    assert result.attempted > 0
    assert result.failed == 0
