"""The output of `fleetlake status`: a verdict first, then a table that fits a terminal."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fleetlake.cli import app
from fleetlake.cli.status import STALE_AFTER, freshness_note, summary_lines
from fleetlake.endpoints import ENDPOINTS
from fleetlake.errors import RecordsMissing
from fleetlake.lake import Lake, open_lake
from fleetlake.lake.clock_repair import TOLERANCE
from fleetlake.lake.commit import set_watermarks
from fleetlake.lake.gaps import Gap
from fleetlake.lake.run_log import StaleMart
from fleetlake.lake.watermarks import add_intervals
from fleetlake.monitoring.status import LakeStatus
from fleetlake.monitoring.streams import StreamStatus, lake_now, stream_statuses
from fleetlake.planning.intervals import Interval
from fleetlake.planning.retention import forecast
from fleetlake.settings import ClockTrust
from tests.support.cases import REQUESTED
from tests.support.streams import GAP, GOOD, NOW, read_until

LOST = replace(GAP, account_profile="west")
EXPIRING = forecast(
    unread=[Interval(NOW - timedelta(days=29.5), NOW)],
    now=NOW,
    retention=timedelta(days=30),
    records_per_second=1,
    calls_per_minute=450,
)


def reported(*streams: StreamStatus, gaps: tuple[Gap, ...] = ()) -> list[str]:
    return list(summary_lines(LakeStatus(streams=list(streams), open_gaps=list(gaps)), NOW))


def test_a_complete_lake_is_reported_complete_up_to_its_last_load() -> None:
    never = replace(GOOD, endpoint="users_v3", rows=0, loaded_at=None)

    assert reported(GOOD, replace(GOOD, endpoint="users", rows=34), never) == [
        "Nothing is missing up to the last load, 10 min ago: 1,234 rows in 2 streams.",
        "Never loaded: 1 stream; `fleetlake ingest` loads all.",
    ]


def test_a_mart_that_could_not_be_built_is_a_problem() -> None:
    stale = [StaleMart("trips", NOW - timedelta(hours=3))]
    found = LakeStatus(streams=[GOOD], open_gaps=[], stale_marts=stale)

    assert [*summary_lines(found, NOW)][1:] == [
        "- The mart trips is stale, first 3 h ago: run `fleetlake build`, which says why."
    ]


def test_a_limit_that_is_only_reached_is_no_problem_yet() -> None:
    reached = replace(
        GOOD,
        endpoint="alerts",
        loaded_at=GOOD.loaded_at - STALE_AFTER,
        complete_until=NOW + TOLERANCE,
    )
    passed = replace(
        GOOD,
        endpoint="users",
        loaded_at=reached.loaded_at - timedelta(seconds=1),
        complete_until=reached.complete_until + timedelta(seconds=1),
    )

    assert reported(GOOD, reached)[0].startswith("Nothing is missing")
    assert [line.split()[1] for line in reported(GOOD, passed)[1:]] == ["users", "users"]


@pytest.mark.usefixtures("lake")
def test_what_needs_no_action_is_noted_below_the_table_of_each_account(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    noted = replace(
        GOOD,
        account_profile="west",
        complete_from=NOW - timedelta(days=3),
        retention=EXPIRING,
        drifted=2,
        unavailable="403",
    )
    found = LakeStatus(streams=[GOOD, noted], open_gaps=[])
    monkeypatch.setattr("fleetlake.monitoring.status.lake_status", lambda *_, **__: found)

    lines = CliRunner().invoke(app, ["status"], env={"COLUMNS": "100"}).output.splitlines()

    assert [line.rstrip() for line in lines if line.startswith("profile")] == [
        "profile default",
        "profile west",
    ]
    assert [line.removeprefix("activity_logs of west: ") for line in lines[-4:]] == [
        "complete from 2026-06-12 12:00 on.",
        "load within 12 h: then the service deletes records that no load has read.",
        "2 members without a column (`fleetlake records columns list`).",
        "this account has no access to it.",
    ]
    assert sum("activity_logs: " in line for line in lines) == 0


@pytest.mark.parametrize(
    ("hours", "asked"), [("6", "every 6 h: about 1,667 calls an hour"), ("0", "at each load")]
)
def test_a_list_read_device_by_device_says_how_far_each_is_proven_and_what_that_costs(
    monkeypatch: pytest.MonkeyPatch, hours: str, asked: str
) -> None:
    monkeypatch.setenv("FLEETLAKE_FRESHNESS__ROUTER_LOGS", hours)
    behind = NOW - timedelta(hours=6)
    logs = replace(GOOD, endpoint="router_logs", devices=10_000, complete_until=behind)

    assert freshness_note(logs) == (
        f"each of 10,000 devices is complete until 2026-06-15 06:00 or later, and asked {asked}"
    )
    assert reported(logs)[0].startswith("Nothing is missing")


def test_a_stream_whose_first_load_was_stopped_is_reported_as_partly_loaded() -> None:
    begun = replace(GOOD, endpoint="users", rows=34, loaded_at=None)

    assert reported(GOOD, begun)[1:] == [
        "- users is only partly loaded: `fleetlake ingest` loads the rest."
    ]
    assert reported(begun) == ["Only partly loaded so far: run `fleetlake ingest`."]


def test_a_stream_that_this_account_may_not_read_is_not_a_problem() -> None:
    closed = replace(GOOD, loaded_at=NOW - timedelta(days=9), unavailable="403")

    assert reported(GOOD, closed)[0].startswith("Nothing is missing")


@pytest.fixture
def lake(lake_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lake]:
    """Return a lake in which one long name was loaded, open for writing."""
    monkeypatch.setenv("FLEETLAKE_LAKE", str(lake_path))
    with open_lake(lake_path) as lake:
        name = max(REQUESTED, key=len)
        lake.execute(
            "insert into meta.watermarks by name select 'default' as account_profile, "
            f"'{name}' as endpoint, now() as watermark_at, now() as updated_at"
        )
        yield lake


@pytest.mark.usefixtures("lake")
def test_the_verdict_comes_first_and_no_line_wraps_at_eighty_columns() -> None:
    lines = CliRunner().invoke(app, ["status"], env={"COLUMNS": "80"}).output.splitlines()

    assert lines[0].startswith("Nothing is missing up to the last load")
    assert all(len(line) <= 80 for line in lines)
    assert {name for name in REQUESTED for line in lines if f" {name} " in line} == set(REQUESTED)
    assert len([line for line in lines if line.startswith("│")]) == len(REQUESTED)


def test_a_lost_range_is_reported_with_its_exit_code(lake: Lake) -> None:
    lake.execute(
        "insert into meta.gaps values "
        "('default', 'alerts', '', now(), now(), 'not read in time', now(), null)"
    )

    shown = CliRunner().invoke(app, ["status"])

    assert shown.output.splitlines()[1].startswith(
        "- alerts lost records that the service deleted unread"
    )
    assert isinstance(shown.exception, RecordsMissing)
    assert shown.exception.exit_code == 9


@pytest.mark.proof
def test_a_stream_of_many_ids_is_as_complete_as_its_least_complete_id(lake: Lake) -> None:
    endpoint = ENDPOINTS["net_device_signal_samples"]

    def between(start: int, end: int) -> Interval:
        return Interval(NOW + timedelta(hours=start), NOW + timedelta(hours=end))

    complete = {"1": [between(-9, -1)], "2": [between(-8, -6), between(-5, -2)]}
    of_others = {"1": [between(-1, 0)], "3": [between(-7, -4), between(-3, 0)]}
    add_intervals(lake, "default", endpoint, complete)
    add_intervals(lake, "west", endpoint, of_others)
    marks = [
        read_until(endpoint.name, NOW - timedelta(hours=2)),
        read_until(endpoint.name, NOW, profile="west"),
    ]
    set_watermarks(lake, marks)

    found = stream_statuses(lake, now=NOW, calls_per_minute=450)

    own, other = (stream for stream in found if stream.endpoint == endpoint.name)
    assert (own.account_profile, other.account_profile) == ("default", "west")
    assert (own.complete_from, own.complete_until) == (between(-8, -2).start, between(-8, -2).end)
    assert (other.complete_from, other.complete_until) == (NOW - timedelta(hours=1), NOW)
    assert (own.holes, other.holes) == (1, 1)
    assert (own.watermark_at, other.watermark_at) == (NOW - timedelta(hours=2), NOW)


@pytest.mark.proof
@pytest.mark.parametrize("seconds_before", [[], [0], [0, 0.4], [0, 3600]])
def test_a_stream_with_few_records_has_a_forecast(lake: Lake, seconds_before: list[float]) -> None:
    endpoint = ENDPOINTS["activity_logs"]
    add_intervals(lake, "default", endpoint, {"": [Interval(NOW - timedelta(days=2), NOW)]})
    set_watermarks(lake, [read_until(endpoint.name, NOW)])
    for seconds in seconds_before:
        lake.execute(
            "insert into raw.activity_logs by name select 'default' as account_profile, "
            f"? as {endpoint.event_time}",
            [NOW - timedelta(seconds=seconds)],
        )

    later = NOW + timedelta(days=1)
    found = {s.endpoint: s for s in stream_statuses(lake, now=later, calls_per_minute=450)}

    retention = found["activity_logs"].retention
    assert retention is not None
    assert (retention.state, retention.expires_in) == ("ok", timedelta(days=29))


def test_each_account_has_its_own_counts_of_what_waits(lake: Lake) -> None:
    set_watermarks(
        lake,
        [read_until("alerts", NOW, profile=p) for p in ("default", "west")],
    )
    one_account = "'west' as account_profile, 'alerts' as endpoint"
    lake.execute(
        f"insert into meta.quarantine by name select {one_account}, r::varchar as raw, "
        "if(r = 0, now(), null) as resolved_at from range(4) t(r)"
    )
    lake.execute("insert into meta.promoted by name select 'alerts' as endpoint, 'm0' as member")
    lake.execute(
        f"insert into meta.schema_drift by name select {one_account}, 'm' || r as member "
        "from range(3) t(r)"
    )
    lake.execute(
        f"insert into meta.capabilities by name select {one_account}, "
        "false as is_available, '403' as reason"
    )

    found = stream_statuses(lake, now=NOW, calls_per_minute=450)

    assert [
        (s.account_profile, s.quarantined, s.drifted, s.unavailable)
        for s in found
        if s.endpoint == "alerts"
    ] == [("default", 0, 0, None), ("west", 3, 2, "403")]


def test_status_uses_this_machines_clock_unless_the_services_is_trusted(
    lake_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead = NOW + timedelta(hours=40)
    monkeypatch.setattr("fleetlake.monitoring.streams.machine_now", lambda: NOW)

    with open_lake(lake_path) as lake:
        set_watermarks(lake, [read_until("alerts", ahead)])

        assert lake_now(lake, ClockTrust.CHECKED) == NOW
        assert lake_now(lake, ClockTrust.SERVICE) == ahead
