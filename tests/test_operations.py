"""What an operator does with a lake: watch, repair, inspect, keep small."""

import os
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import httpx
import pytest

from fleetlake.care.maintenance import maintain
from fleetlake.cli import main
from fleetlake.endpoints import ENDPOINTS
from fleetlake.errors import EndpointUnavailable, LakeBusy, LakeError, StreamBusy, UsageError
from fleetlake.lake import Lake, open_lake
from fleetlake.lake.gaps import acknowledge_gaps, gaps, record_gaps
from fleetlake.lake.locks import Patience, stream_lock
from fleetlake.lake.watermarks import forget_interval, proven_intervals
from fleetlake.lake_address import DEMO_MARK
from fleetlake.loading.ingest import backfill, ingest, raise_worst
from fleetlake.loading.outcome import Outcome
from fleetlake.loading.quarantine import acknowledge_quarantined, quarantined, retry_quarantined
from fleetlake.loading.verify import verify
from fleetlake.monitoring.doctor import run_checks
from fleetlake.monitoring.streams import stream_statuses
from fleetlake.planning.intervals import BEGINNING, Interval
from fleetlake.planning.retention import Forecast, RetentionState
from tests.support.sim import NOW, Sim, copied, loaded_sim

DAY = timedelta(days=1)
MAINTAINED_LAKES = int(os.environ.get("SOAK_LAKES", "3"))


class Rewriting(httpx.AsyncBaseTransport):
    """Passes responses on with parts of their text replaced, or refuses a path."""

    def __init__(
        self, sim: Sim, replace: dict[str, str], refuse: str = "", status: int = 403
    ) -> None:
        self._inner, self._replace = sim.transport, replace
        self._refuse, self._status = refuse, status

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if self._refuse and request.url.path.endswith(self._refuse):
            return httpx.Response(
                self._status, json={"errors": [], "exception": {"message": "forbidden"}}
            )
        answer = await self._inner.handle_async_request(request)
        text = (await answer.aread()).decode()
        for old, new in self._replace.items():
            text = text.replace(old, new)
        return httpx.Response(
            answer.status_code, text=text, headers={"date": answer.headers["date"]}
        )


LOADED = ("alerts", "activity_logs", "users", "products", "routers")


@pytest.fixture(scope="module")
def loaded_once(empty_lake: Path, tmp_path_factory: pytest.TempPathFactory) -> Sim:
    """Return a service with some endpoints loaded, to be copied."""
    return loaded_sim(tmp_path_factory.mktemp("loaded"), empty_lake, *LOADED)


@pytest.fixture
def loaded(loaded_once: Sim, tmp_path: Path) -> Sim:
    """Return a service with some endpoints loaded into this test's own lake."""
    return copied(loaded_once, tmp_path)


def rows(sim: Sim, sql: str) -> list[tuple[Any, ...]]:
    with open_lake(sim.settings().lake, read_only=True) as lake:
        return lake.rows(sql)


def test_a_real_fleet_cannot_be_loaded_into_the_demos_lake(sim: Sim) -> None:
    settings = sim.settings(base_url="https://service.example/api/v2/", v3_base_url=None)
    (settings.lake / DEMO_MARK).touch()

    with pytest.raises(LakeError, match="simulated fleet"):
        ingest(settings, [])
    with pytest.raises(LakeError, match="simulated fleet"):
        backfill(settings, "alerts", Interval(NOW - DAY, NOW))
    check = next(check for check in run_checks(settings) if check.name == "lake")
    assert "simulated fleet" in check.found


@pytest.mark.proof
def test_a_lake_behind_by_less_than_the_retention_loses_nothing(make_sim: Any) -> None:
    sim = make_sim(days=3, routers=3)
    sim.ingest("activity_logs")
    sim.advance((29 * DAY + timedelta(hours=20)).total_seconds())

    sim.ingest("activity_logs")

    assert rows(sim, "select count(*) from meta.gaps") == [(0,)]
    kept = {key for (key,) in rows(sim, "select action_id from raw.activity_logs")}
    until = NOW + 29 * DAY + timedelta(hours=19)
    assert {r["action"]["id"] for r in sim.truth("activity_logs", until)} <= kept


def test_an_expired_unread_range_is_a_gap_with_exact_bounds(
    make_sim: Any,
) -> None:
    sim = make_sim(days=3, routers=3)
    sim.ingest("activity_logs")
    [(read_until,)] = rows(
        sim, "select max(end_at) from meta.intervals where endpoint = 'activity_logs'"
    )
    sim.advance((31 * DAY).total_seconds())

    [outcome] = sim.ingest("activity_logs")

    assert outcome.lost == 1
    with open_lake(sim.settings().lake) as lake:
        [gap] = gaps(lake, only_open=True)
        assert gap.endpoint == "activity_logs"
        assert gap.start_at == read_until
        assert timedelta(0) <= gap.end_at - (NOW + DAY) < timedelta(seconds=5)
        assert acknowledge_gaps(lake) == 1
        assert gaps(lake, only_open=True) == []
    [outcome] = sim.ingest("activity_logs")
    assert outcome.lost == 0
    assert rows(sim, "select count(*) from meta.gaps") == [(1,)]


def test_a_gap_ends_where_the_records_that_the_service_still_returned_begin(
    lake_path: Path,
) -> None:
    endpoint, day = ENDPOINTS["activity_logs"], Interval(NOW - DAY, NOW)
    expired = {"": [day]}
    with open_lake(lake_path) as lake:
        counts = [
            record_gaps(lake, "default", endpoint, expired, {"": day.start + DAY / 4}),
            record_gaps(lake, "west", endpoint, expired, {"": day.start}),
            record_gaps(lake, "east", endpoint, expired, {}),
        ]
        found = {gap.account_profile: (gap.start_at, gap.end_at) for gap in gaps(lake)}
        proven = proven_intervals(lake, "west", endpoint)

    assert counts == [1, 0, 1]
    assert found == {"default": (day.start, day.start + DAY / 4), "east": (day.start, day.end)}
    assert proven == expired


@pytest.mark.parametrize(
    ("behind", "state"),
    [
        pytest.param(DAY, RetentionState.OK, marks=pytest.mark.proof),
        (29 * DAY + timedelta(hours=20), RetentionState.AT_RISK),
        pytest.param(31 * DAY, RetentionState.LOST, marks=pytest.mark.proof),
    ],
)
def test_status_shows_how_close_a_stream_is_to_its_retention(
    loaded: Sim, behind: timedelta, state: RetentionState
) -> None:
    with open_lake(loaded.settings().lake, read_only=True) as lake:
        found = stream_statuses(lake, now=NOW + behind, calls_per_minute=450)

    [stream] = [s for s in found if s.endpoint == "activity_logs"]
    assert stream.retention is not None
    assert stream.retention.state is state


@pytest.mark.proof
def test_status_forecasts_by_the_records_of_its_own_account_only(loaded: Sim) -> None:
    def retention(lake: Lake) -> Forecast | None:
        found = stream_statuses(lake, now=NOW + 20 * DAY, calls_per_minute=450)
        return next(s.retention for s in found if s.endpoint == "activity_logs")

    with open_lake(loaded.settings().lake) as lake:
        alone = retention(lake)
        lake.execute(
            "insert into raw.activity_logs by name select a.* replace ('west' as account_profile, "
            "action_id || i as action_id) from raw.activity_logs a, range(50) r(i)"
        )
        beside_others = retention(lake)

    assert alone is not None
    assert beside_others == alone


@pytest.mark.parametrize(
    ("ago", "state"),
    [
        pytest.param(2 * DAY, RetentionState.OK, marks=pytest.mark.proof),
        (29.5 * DAY, RetentionState.AT_RISK),
        pytest.param(31 * DAY, RetentionState.LOST, marks=pytest.mark.proof),
    ],
)
def test_a_hole_far_behind_the_newest_record_expires_first(
    loaded: Sim, ago: timedelta, state: RetentionState
) -> None:
    endpoint = ENDPOINTS["activity_logs"]

    with open_lake(loaded.settings().lake) as lake:
        forget_interval(lake, "default", endpoint, Interval(NOW - ago, NOW - ago + DAY / 24))
        found = stream_statuses(lake, now=NOW, calls_per_minute=450)

    [stream] = [s for s in found if s.endpoint == "activity_logs"]
    assert stream.retention is not None
    assert stream.retention.state is state
    assert stream.retention.expires_in == 30 * DAY - ago
    assert stream.retention.calls == 1


def test_verify_accepts_a_complete_lake_and_names_the_missing_records_of_another(
    loaded: Sim,
) -> None:
    good = verify(loaded.settings(), "alerts", start=BEGINNING, transport=loaded.transport)
    with open_lake(loaded.settings().lake) as lake:
        [(lost,)] = lake.rows("select min(created_at_timeuuid) from raw.alerts")
        lake.execute("delete from raw.alerts where created_at_timeuuid = ?", [lost])

    bad = verify(loaded.settings(), "alerts", start=BEGINNING, transport=loaded.transport)

    assert good.missing == good.surplus == frozenset()
    assert good.served > 100
    assert bad.missing == {(lost,)}


@pytest.mark.parametrize(
    "name",
    [
        "routers",
        "failovers",
        pytest.param("batteries", marks=pytest.mark.proof),
        pytest.param("net_device_usage_samples", marks=pytest.mark.proof),
    ],
)
def test_verify_compares_every_kind_of_endpoint(sim: Sim, name: str) -> None:
    sim.ingest(name)

    verdict = verify(sim.settings(), name, start=BEGINNING, transport=sim.transport)

    assert verdict.served > 0
    assert verdict.missing == verdict.surplus == frozenset()


def test_backfill_reads_a_chosen_range_again_and_restores_lost_rows(loaded: Sim) -> None:
    day = Interval(datetime(2026, 6, 13, tzinfo=UTC), datetime(2026, 6, 14, tzinfo=UTC))
    before = rows(loaded, "select count(*) from raw.alerts")
    with open_lake(loaded.settings().lake) as lake:
        lake.execute(
            "delete from raw.alerts where created_at >= ? and created_at < ?", [day.start, day.end]
        )
    ranges = "select start_at, end_at from meta.intervals where endpoint = 'alerts'"
    proven = rows(loaded, ranges)

    [outcome] = backfill(loaded.settings(), "alerts", day, transport=loaded.transport)

    assert outcome.error is None
    assert outcome.added > 0
    assert rows(loaded, "select count(*) from raw.alerts") == before
    assert (
        rows(loaded, "select start_at, end_at from meta.intervals where endpoint = 'alerts'")
        == proven
    )


def test_backfill_is_idempotent(loaded: Sim) -> None:
    day = Interval(datetime(2026, 6, 13, tzinfo=UTC), datetime(2026, 6, 14, tzinfo=UTC))

    [outcome] = backfill(loaded.settings(), "alerts", day, transport=loaded.transport)

    assert (outcome.added, outcome.changed) == (0, 0)


def test_a_list_without_event_times_cannot_be_backfilled(sim: Sim) -> None:
    with pytest.raises(UsageError, match="no past"):
        backfill(sim.settings(), "routers", Interval(NOW - DAY, NOW), transport=sim.transport)


def test_each_unknown_member_has_its_own_first_seen_time(sim: Sim) -> None:
    first = Rewriting(sim, {'"friendly_info"': '"severity":3,"friendly_info"'})
    second = Rewriting(sim, {'"friendly_info"': '"severity":4,"a.b":[5],"":6,"friendly_info"'})

    sim.ingest("alerts", transport=first)
    sim.advance(86_400)
    sim.ingest("alerts", transport=second)

    noted = rows(sim, "select member, example from meta.schema_drift order by member")
    assert noted == [('""', "6"), ('"a.b"', "[5]"), ("severity", "3")]


def test_a_record_without_its_key_waits_in_quarantine_until_it_can_be_read(sim: Sim) -> None:
    first = sim.truth("users")[0]["id"]
    broken = Rewriting(sim, {f'"id":"{first}"': '"id":"not a number"'})

    [outcome] = sim.ingest("users", transport=broken)

    assert (outcome.error, outcome.quarantined) == (None, 1)
    with open_lake(sim.settings().lake) as lake:
        [record] = quarantined(lake)
        assert record.reason.startswith("id:")
        assert "not a number" in record.raw
        assert retry_quarantined(lake) == (0, 1)
        lake.execute("update meta.quarantine set raw = replace(raw, 'not a number', ?)", [first])
        assert retry_quarantined(lake) == (1, 0)
        assert quarantined(lake) == []
    assert rows(sim, f"select count(*) from raw.users where id = {first}") == [(1,)]


@pytest.mark.proof
def test_quarantined_records_of_a_busy_stream_wait_and_the_retry_reports_it(
    sim: Sim, caplog: pytest.LogCaptureFixture
) -> None:
    first = {name: sim.truth(name)[0]["id"] for name in ("users", "groups")}
    for name, id_ in first.items():
        sim.ingest(name, transport=Rewriting(sim, {f'"id":"{id_}"': '"id":"none"'}))
    with open_lake(sim.settings().lake) as lake:
        for name, id_ in first.items():
            sql = "update meta.quarantine set raw = replace(raw, 'none', ?) where endpoint = ?"
            lake.execute(sql, [id_, name])

        with stream_lock(lake.path, "users"):
            assert retry_quarantined(lake) == (1, 1)
        assert [record.endpoint for record in quarantined(lake)] == ["users"]
        assert "Another process is loading users" in caplog.text
        assert retry_quarantined(lake) == (1, 0)


def test_an_acknowledged_record_is_kept_and_not_reported_again(
    sim: Sim,
) -> None:
    first = sim.truth("users")[0]["id"]
    broken = Rewriting(sim, {f'"id":"{first}"': '"id":"not a number"'})
    sim.ingest("users", transport=broken)

    with open_lake(sim.settings().lake) as lake:
        assert acknowledge_quarantined(lake, "alerts") == 0
        assert acknowledge_quarantined(lake, "users") == 1
    sim.ingest("users", transport=broken)

    with open_lake(sim.settings().lake) as lake:
        assert quarantined(lake) == []
        assert acknowledge_quarantined(lake) == 0
        [(raw,)] = lake.rows("select raw from meta.quarantine")
    assert "not a number" in raw


PLACEHOLDER = (
    '{"id":"","account":"https://%s/api/v2/accounts/1/","configuration":[{},[]],'
    '"router":"https://%s/api/v2/routers/None/","updated_at":"%s"},'
)


def placeholder(host: str, at: str) -> dict[str, str]:
    """Return how a placeholder record gets into the lists of a service."""
    return {'"data":[': f'"data":[{PLACEHOLDER % (host, host, at)}'}


def test_a_placeholder_is_one_row_however_often_and_from_whichever_host_it_comes(sim: Sim) -> None:
    name = "configuration_managers"
    for load, host in enumerate(("a.test", "b.test", "b.test")):
        answers = placeholder(host, f"2026-01-0{load + 1}T00:00:00Z")
        [outcome] = sim.ingest(name, transport=Rewriting(sim, answers))
        assert outcome.error is None
        assert outcome.quarantined == (load == 0)

    with open_lake(sim.settings().lake, read_only=True) as lake:
        found = lake.rows(
            "select times_seen, quarantined_at < last_seen_at, raw like '%/routers/None/%' "
            "from meta.quarantine"
        )
        statuses = stream_statuses(lake, now=NOW, calls_per_minute=450)
        [status] = [one for one in statuses if one.endpoint == name]

    assert found == [(3, True, True)]
    assert status.quarantined == 0  # nothing for a person to do


def test_a_placeholder_does_not_keep_versions_of_removed_records_open(sim: Sim) -> None:
    sim.ingest("users")
    gone = sim.truth("users")[0]["id"]
    answers = placeholder("a.test", "2026-01-01T00:00:00Z") | {f'"id":"{gone}"': '"id":"0"'}
    sim.ingest("users", transport=Rewriting(sim, answers))

    with open_lake(sim.settings().lake, read_only=True) as lake:
        [(is_closed,)] = lake.rows(f"select valid_to is not null from raw.users where id = {gone}")

    assert is_closed


def test_records_without_an_id_are_one_row_each_and_wait_for_a_person(sim: Sim) -> None:
    broken = Rewriting(sim, {'"id":"': '"id":"x'})
    for _ in range(2):
        sim.ingest("users", transport=broken)
    people = len(sim.truth("users"))

    with open_lake(sim.settings().lake) as lake:
        waiting = quarantined(lake)
        lake.execute("update meta.quarantine set last_seen_at = null, times_seen = null")
        earlier = quarantined(lake)

    assert len(waiting) == people
    assert {record.times_seen for record in waiting} == {2}
    assert {record.times_seen for record in earlier} == {1}
    assert all(record.last_seen_at == record.quarantined_at for record in earlier)


@pytest.mark.proof
def test_a_forbidden_endpoint_is_marked_and_the_others_continue(
    sim: Sim,
) -> None:
    refused = {"/users/": 403, "/groups/": 404, "/products/": 405}

    for path, status in refused.items():
        name = path.strip("/")
        refusing = Rewriting(sim, {}, refuse=path, status=status)
        outcomes = {o.endpoint: o for o in sim.ingest(name, "accounts", transport=refusing)}
        assert isinstance(outcomes[name].error, EndpointUnavailable)
        raise_worst([*outcomes.values()])
        raise_worst([*outcomes.values()], named=["accounts"])
        with pytest.raises(EndpointUnavailable, match=str(status)):
            raise_worst([*outcomes.values()], named=[name, "accounts"])
        assert outcomes["accounts"].error is None

    assert unavailable(sim) == {path.strip("/"): str(n) for path, n in refused.items()}
    sim.ingest("users")
    assert unavailable(sim).keys() == {"groups", "products"}


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["ingest", "users"], 4),
        (["ingest", "subscriptions"], 4),
        (["ingest"], 0),
        (["ingest", "accounts"], 0),
        (["backfill", "alerts", "--from", "2026-01-01", "--to", "2026-01-02"], 4),
    ],
    ids=["named", "v3", "unnamed", "another", "backfill"],
)
def test_a_named_endpoint_that_the_account_may_not_read_ends_a_command_with_code_4(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str], code: int
) -> None:
    refused = EndpointUnavailable("GET it returned 403.")
    refusals = ("users", "subscriptions", "alerts")
    outcomes = [Outcome(endpoint=name, error=refused) for name in refusals]
    outcomes += [Outcome(endpoint="accounts")]

    for name in ("ingest", "backfill"):
        monkeypatch.setattr(f"fleetlake.loading.ingest.{name}", lambda *_, **__: outcomes)
    monkeypatch.setattr(sys, "argv", ["fleetlake", *words])

    assert main() == code
    assert ("returned 403" in capsys.readouterr().err) is bool(code)


def unavailable(sim: Sim) -> dict[str, str]:
    """Return by endpoint the status with which the service refused it."""
    with open_lake(sim.settings().lake, read_only=True) as lake:
        found = stream_statuses(lake, now=NOW, calls_per_minute=450)
    said = {s.endpoint: re.search(r"\b\d{3}\b", s.unavailable) for s in found if s.unavailable}
    return {name: match[0] for name, match in said.items() if match}


@pytest.mark.proof
def test_maintenance_keeps_every_row_in_fewer_files(sim: Sim) -> None:
    names = ["batteries", "net_device_usage_samples", "router_state_samples"]
    for _ in range(8):
        sim.ingest(*names)
        sim.advance(6 * 3600)
    before = {n: sorted(rows(sim, f"select * from raw.{n}"), key=str) for n in names}

    with open_lake(sim.settings().lake) as lake:
        done = maintain(lake, keep=timedelta(0))

    after = {n: sorted(rows(sim, f"select * from raw.{n}"), key=str) for n in names}
    assert after == before
    assert done.files_after < done.files_before
    assert done.snapshots_expired > 0


@pytest.mark.proof
def test_maintenance_counts_written_files_and_merged_files_separately(sim: Sim) -> None:
    sim.ingest("accounts")  # few rows, which stay in the catalog

    with open_lake(sim.settings().lake) as lake:
        done = maintain(lake, keep=timedelta(0))

    assert done.files_written > 0
    assert done.files_after <= done.files_before


@pytest.mark.proof
def test_small_loads_are_written_by_one_thread_and_the_rest_by_as_many_as_before(
    sim: Sim, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With several threads, DuckLake occasionally aborts the process."""
    sim.ingest("accounts")
    threads = "select current_setting('threads')"
    seen: dict[str, object] = {}
    with open_lake(sim.settings().lake, threads=3) as lake:
        own = lake.execute

        def look(sql: str, parameters: object = None) -> duckdb.DuckDBPyConnection:
            if sql.startswith("call"):
                seen[sql.partition("'")[0]] = own(threads).fetchall()
            return own(sql, parameters)

        monkeypatch.setattr(lake, "execute", look)
        maintain(lake)

    assert seen.pop("call ducklake_flush_inlined_data(") == [(1,)]
    assert all(count == [(3,)] for count in seen.values())
    assert len(seen) >= 2


@pytest.mark.release
@pytest.mark.proof
def test_maintenance_of_lake_after_lake_succeeds(tmp_path: Path) -> None:
    """Runs in a separate process, because the failure is an abort, mostly with a new lake."""
    lake_after_lake = """if True:
        import sys
        from pathlib import Path
        from fleetlake.lake import open_lake
        from fleetlake.care.maintenance import maintain

        for number in range(int(sys.argv[2])):
            with open_lake(Path(sys.argv[1]) / str(number)) as lake:
                lake.execute("create table marts.trips (trip_id bigint, note varchar)")
                lake.execute("insert into marts.trips select i, 'a' from range(9) r(i)")
                lake.execute("update marts.trips set note = 'b' where trip_id < 4")
                maintain(lake)
                print(lake.rows("select count(*) from marts.trips where note = 'b'")[0][0])
    """
    words = [sys.executable, "-c", lake_after_lake, str(tmp_path), str(MAINTAINED_LAKES)]

    done = subprocess.run(words, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout) == (0, "4\n" * MAINTAINED_LAKES), done.stderr


@pytest.mark.proof
def test_merged_files_are_flushed_to_disk_before_old_files_are_removed(
    sim: Sim, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        sim.ingest("router_state_samples")
        sim.advance(6 * 3600)
    place = sim.settings().lake
    old, at_flush = set((place / "files").rglob("*.parquet")), set()

    def look(_: object) -> None:
        at_flush.update((place / "files").rglob("*.parquet"))

    for module in ("care.maintenance", "lake.connection"):
        monkeypatch.setattr(f"fleetlake.{module}.flush_files", look)
    with open_lake(place) as lake:
        maintain(lake, keep=timedelta(0))

    left = set((place / "files").rglob("*.parquet"))
    assert old - left  # some were replaced
    assert old | left <= at_flush


def test_maintenance_is_refused_while_a_stream_loads(loaded: Sim) -> None:
    with (
        stream_lock(loaded.settings().lake, "alerts"),
        open_lake(loaded.settings().lake) as lake,
        pytest.raises(LakeBusy) as refused,
    ):
        maintain(lake)

    assert refused.value.exit_code == 12


def test_maintenance_waits_for_a_load_to_end_and_says_so(loaded: Sim) -> None:
    waits: list[str] = []
    load = stream_lock(loaded.settings().lake, "alerts")
    load.__enter__()

    def end_load(what: str) -> None:
        waits.append(what)
        load.__exit__(None, None, None)

    with open_lake(loaded.settings().lake) as lake:
        maintain(lake, patience=Patience(seconds=60, on_busy=end_load))

    assert waits == ["Another process is loading alerts."]


def test_a_backfill_of_a_stream_that_is_being_loaded_ends_with_the_code_of_a_busy_lake(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    outcomes = [Outcome(endpoint="alerts", error=StreamBusy("Another process is loading alerts."))]
    for name in ("ingest", "backfill"):
        monkeypatch.setattr(f"fleetlake.loading.ingest.{name}", lambda *_, **__: outcomes)
    codes = {}
    for words in (
        ("ingest", "alerts"),
        ("backfill", "alerts", "--from", "2026-01-01", "--to", "2026-01-02"),
    ):
        monkeypatch.setattr(sys, "argv", ["fleetlake", *words])
        codes[words[0]] = main()

    assert codes == {"ingest": 0, "backfill": 12}  # a load skips its turn
    assert "Error: Another process is loading alerts." in capsys.readouterr().err


@pytest.mark.parametrize("words", [["maintain"], ["erase", "--user", "1", "--yes"]])
def test_a_command_that_finds_the_lake_busy_ends_with_a_code_of_its_own(
    loaded: Sim,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
) -> None:
    monkeypatch.setenv("FLEETLAKE_LAKE", str(loaded.settings().lake))
    monkeypatch.setenv("FLEETLAKE_BUSY_WAIT", "0")
    monkeypatch.setattr(sys, "argv", ["fleetlake", *words])
    with stream_lock(loaded.settings().lake, "alerts"):
        code = main()

    said = capsys.readouterr().err
    assert code == 12
    assert "Error: Another process is loading alerts." in said
    assert "Run again when it has ended" in said
