"""Days that rows stay: what is deleted then, and that nothing brings it back."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from fleetlake.care.backups.backup import back_up
from fleetlake.care.integrity import rebuild
from fleetlake.care.integrity.check import check_lake
from fleetlake.care.integrity.damage import DamageKind
from fleetlake.care.integrity.rebuild import rebuild_catalog
from fleetlake.care.maintenance import Maintained, maintain
from fleetlake.cli import app
from fleetlake.endpoints import ENDPOINTS
from fleetlake.errors import LakeError, SettingsError
from fleetlake.lake import open_lake
from fleetlake.lake.attach import CATALOG
from fleetlake.lake.audit_trail import EventKind, read_events, record_event
from fleetlake.lake.retention_rules import prepare_retention, require_rules, retention_now
from fleetlake.lake.watermarks import forget_interval
from fleetlake.loading.ingest import backfill, ingest
from fleetlake.loading.verify import verify
from fleetlake.monitoring.streams import stream_statuses
from fleetlake.planning.intervals import BEGINNING, Interval
from fleetlake.privacy import after_retention
from fleetlake.privacy.after_retention import renew_after_retention
from fleetlake.settings import ClockTrust, Settings
from tests.support.sim import NOW, Sim, copied, loaded_sim

pytestmark = pytest.mark.xdist_group("retention")  # they share a lake, which takes seconds

DAY = timedelta(days=1)
DAYS = {"alerts": 2, "activity_logs": 1, "routers": 1}
KEPT = {"alerts": NOW - 2 * DAY, "activity_logs": NOW - DAY}
KEPT = {name: at.replace(hour=0) for name, at in KEPT.items()}


@pytest.fixture(scope="module")
def loaded_once(empty_lake: Path, tmp_path_factory: pytest.TempPathFactory) -> Sim:
    """Return a service of which some endpoints were loaded without rules, to be copied."""
    return loaded_sim(tmp_path_factory.mktemp("loaded"), empty_lake, "alerts", "activity_logs")


@pytest.fixture
def loaded(loaded_once: Sim, tmp_path: Path) -> Sim:
    """Return a service with these endpoints loaded into this test's own lake."""
    return copied(loaded_once, tmp_path)


def maintained(sim: Sim, days: dict[str, int], **options: Any) -> Maintained:
    with open_lake(sim.settings().lake) as lake:
        prepare_retention(lake, days, trust=ClockTrust.SERVICE)
        return maintain(lake, keep=timedelta(0), days=days, **options)


def held(sim: Sim, endpoint: str, key: str) -> set[str]:
    with open_lake(sim.settings().lake, read_only=True) as lake:
        return {value for (value,) in lake.rows(f"select {key} from raw.{endpoint}")}


def served_since(sim: Sim, endpoint: str, start: datetime) -> set[str]:
    """Return the keys that the simulator says it holds from an instant on."""
    if endpoint == "alerts":
        return {
            one["created_at_timeuuid"]
            for one in sim.truth("alerts")
            if datetime.fromisoformat(one["created_at"]) >= start
        }
    actions = [one["action"] for one in sim.truth("activity_logs")]
    return {a["id"] for a in actions if datetime.fromisoformat(a["timestamp"]) >= start}


KEYS = {"alerts": "created_at_timeuuid", "activity_logs": "action_id"}


def assert_only_recent(sim: Sim) -> None:
    """Compare with the truth, up to where late records may still arrive."""
    for endpoint, start in KEPT.items():
        recent, found = served_since(sim, endpoint, start), held(sim, endpoint, KEYS[endpoint])
        assert found <= recent
        assert len(recent - found) < len(recent) / 10
        assert found


def test_maintenance_deletes_rows_past_their_days_and_records_the_event(loaded: Sim) -> None:
    before = {name: held(loaded, name, key) for name, key in KEYS.items()}

    done = maintained(loaded, DAYS)

    assert_only_recent(loaded)
    with open_lake(loaded.settings().lake, read_only=True) as lake:
        events = {e.endpoint: (e.kind, e.rows) for e in read_events(lake)}
    gone = {name: len(before[name] - held(loaded, name, key)) for name, key in KEYS.items()}
    assert all(gone.values())
    assert done.rows_deleted == gone
    assert events == {name: ("retention", count) for name, count in gone.items()}


@pytest.mark.proof
def test_nothing_that_loads_brings_deleted_rows_back(loaded: Sim) -> None:
    maintained(loaded, DAYS)
    calls = loaded.calls("alerts")
    settings = loaded.settings(retention=DAYS)

    ingest(settings, list(KEYS), transport=loaded.transport)
    backfill(settings, "alerts", Interval(NOW - 3 * DAY, NOW), transport=loaded.transport)
    with open_lake(settings.lake) as lake:  # another process has no rules, and forgets a range
        forget_interval(lake, "default", ENDPOINTS["alerts"], Interval(BEGINNING, NOW))
    loaded.ingest("alerts", since=NOW - 30 * DAY)
    loaded.advance(30 * 3600)  # time for a sweep
    loaded.ingest(*KEYS)

    assert loaded.calls("alerts") > calls
    for endpoint, key in KEYS.items():
        assert held(loaded, endpoint, key) <= served_since(loaded, endpoint, KEPT[endpoint])


@pytest.mark.proof
def test_neither_verify_nor_status_misses_what_is_no_longer_kept(loaded: Sim) -> None:

    maintained(loaded, DAYS)
    with open_lake(loaded.settings().lake) as lake:
        hole = Interval(NOW - 3 * DAY, NOW - 2.7 * DAY)
        forget_interval(lake, "default", ENDPOINTS["alerts"], hole)

    compared = verify(loaded.settings(), "alerts", start=BEGINNING, transport=loaded.transport)

    with open_lake(loaded.settings().lake, read_only=True) as lake:
        [status] = [
            s for s in stream_statuses(lake, now=NOW, calls_per_minute=0) if s.endpoint == "alerts"
        ]
    assert compared.missing == frozenset()
    assert compared.interval
    assert compared.interval.start == KEPT["alerts"]
    assert compared.served > 0
    assert status.holes == 0


def test_a_first_load_with_rules_reads_only_what_they_keep(sim: Sim) -> None:
    ingest(sim.settings(retention=DAYS), ["alerts"], transport=sim.transport)

    found = held(sim, "alerts", "created_at_timeuuid")
    assert found
    assert found <= served_since(sim, "alerts", KEPT["alerts"])


@pytest.mark.proof
def test_a_history_loses_versions_that_ended_before_and_keeps_current_ones(sim: Sim) -> None:
    old, new = NOW - 9 * DAY, NOW - DAY / 2
    sim.ingest("alerts")  # the time of the lake
    with open_lake(sim.settings().lake) as lake:
        for id_, end in ((1, old), (2, new), (3, None)):
            lake.execute(
                "insert into raw.routers (id, valid_from, valid_to) values (?, ?, ?)",
                [id_, old - DAY, end],
            )

    maintained(sim, {"routers": 1})

    assert held(sim, "routers", "id") == {2, 3}


@pytest.mark.proof
def test_quarantined_records_and_examples_go_by_the_day_they_arrived(sim: Sim) -> None:
    sim.ingest("alerts")
    with open_lake(sim.settings().lake) as lake:
        for name, at in (("alerts", NOW - 9 * DAY), ("alerts", NOW), ("routers", NOW - 9 * DAY)):
            lake.execute(
                "insert into meta.quarantine (endpoint, raw, quarantined_at) values (?, '{}', ?)",
                [name, at],
            )
        lake.execute(
            "insert into meta.schema_drift (endpoint, member, example, first_seen_at) "
            "values ('alerts', 'new', '\"a place\"', ?)",
            [NOW - 9 * DAY],
        )

    maintained(sim, {"alerts": 2})

    with open_lake(sim.settings().lake, read_only=True) as lake:
        left = lake.rows("select endpoint, quarantined_at from meta.quarantine order by 1")
        examples = lake.rows("select member, example from meta.schema_drift")
    assert left == [("alerts", NOW), ("routers", NOW - 9 * DAY)]
    assert examples == [("new", None)]


@pytest.mark.proof
def test_the_bytes_of_deleted_rows_leave_the_lake_with_the_last_snapshot(loaded: Sim) -> None:
    files = loaded.settings().lake / "files"
    gone = served_since(loaded, "alerts", BEGINNING) - served_since(
        loaded, "alerts", KEPT["alerts"]
    )

    maintained(loaded, DAYS)

    with open_lake(loaded.settings().lake, read_only=True) as lake:
        left = lake.rows(
            "select created_at_timeuuid from read_parquet(?)",
            [str(files / "raw" / "alerts" / "*.parquet")],
        )
    assert left
    assert not {value for (value,) in left} & gone


@pytest.mark.release
def test_a_catalog_built_anew_does_not_show_rows_past_their_days_of_older_files(
    loaded: Sim,
) -> None:
    path = loaded.settings().lake
    with open_lake(path) as lake:
        prepare_retention(lake, DAYS, trust=ClockTrust.SERVICE)
        maintain(lake, days=DAYS)  # older snapshots, and their files, stay
    for file in path.glob(f"{CATALOG}*"):
        file.unlink()

    rebuilt = rebuild_catalog(path, days=DAYS, trust=ClockTrust.SERVICE)

    assert_only_recent(loaded)
    found = {name: len(held(loaded, name, key)) for name, key in KEYS.items()}
    assert rebuilt.rows == found
    assert {damage.kind for damage in check_lake(path).damages} <= {DamageKind.UNKNOWN}


@pytest.mark.proof
@pytest.mark.parametrize(("minutes", "is_built_again"), [(1, False), (3, True)])
def test_a_build_of_another_machine_that_began_before_the_deletion_does_not_count(
    lake_path: Path, monkeypatch: pytest.MonkeyPatch, minutes: int, is_built_again: bool
) -> None:
    with open_lake(lake_path) as lake:
        lake.execute(
            "create table marts.trips (router_id bigint);"
            "insert into meta.events (kind, happened_at) values "
            "('retention', now() - interval 2 minutes);"
            "insert into meta.builds (built_at, seconds, is_good, is_full) "
            f"values (now(), {60 * minutes}, true, true)"
        )
    monkeypatch.chdir(lake_path)  # away from the exports of this project
    monkeypatch.setattr(after_retention, "build_marts", lambda *_, **__: SimpleNamespace(models=[]))

    done = [*renew_after_retention(Settings(lake=lake_path, published=lake_path / "none"))]

    assert [one.outlet for one in done] == ["marts"] * is_built_again


@pytest.mark.proof
def test_maintain_names_the_backups_with_deleted_rows_even_if_it_leaves_the_copies(
    lake_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLEETLAKE_LAKE", str(lake_path))
    for name in ("before", "after"):
        back_up(lake_path, str(tmp_path / name))
        with open_lake(lake_path) as lake, lake.transaction():
            if name == "before":
                record_event(lake, EventKind.RETENTION, "Rows of alerts were deleted.", rows=1)
    targets = [word for n in ("before", "after") for word in ("--backup", str(tmp_path / n))]

    shown = CliRunner().invoke(app, ["maintain", "--no-copies", *targets]).stdout

    assert shown.count("backups in") == 2
    assert shown.count("still in 1 backup") == shown.count("in no backup") == 1


def test_a_rule_that_the_settings_no_longer_name_ends_with_the_next_maintenance(sim: Sim) -> None:
    maintained(sim, {"alerts": 2, "routers": 5})

    maintained(sim, {"alerts": 2})

    with open_lake(sim.settings().lake, read_only=True) as lake:
        assert lake.rows("select endpoint, days from meta.retention") == [("alerts", 2)]


@pytest.mark.parametrize(
    ("name", "reason"),
    [("alertz", "Did you mean alerts"), ("locations", "current state of each record")],
)
def test_a_rule_of_a_table_without_ages_is_refused(name: str, reason: str) -> None:
    with pytest.raises(SettingsError) as refused:
        require_rules({name: 5})

    assert reason in f"{refused.value.what} {refused.value.remedy}"


def test_a_wrong_rule_is_refused_before_a_catalog_is_rebuilt_which_may_take_hours(
    lake_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for file in lake_path.glob(f"{CATALOG}*"):
        file.unlink()
    monkeypatch.setattr(rebuild, "_fill", lambda *_: pytest.fail("it was rebuilt"))

    with pytest.raises(SettingsError, match="alertz"):
        rebuild_catalog(lake_path, days={"alertz": 5})


@pytest.mark.parametrize("days", ["0", "-3", "many"])
def test_days_that_are_no_positive_number_are_refused(
    days: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLEETLAKE_RETENTION__ALERTS", days)

    with pytest.raises(ValueError, match="retention"):
        Settings()


def test_more_days_than_a_calendar_has_are_refused(lake_path: Path) -> None:
    with open_lake(lake_path) as lake:
        with pytest.raises(SettingsError, match="99,999,999 days are more than a calendar has"):
            prepare_retention(lake, {"alerts": 99_999_999}, trust=ClockTrust.CHECKED)

        assert lake.rows("select * from meta.retention") == []


def test_a_clock_far_ahead_of_the_newest_record_deletes_nothing(
    loaded: Sim, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead = datetime(2040, 1, 1, tzinfo=UTC)
    monkeypatch.setattr("fleetlake.lake.retention_rules.machine_now", lambda: ahead)
    with open_lake(loaded.settings().lake) as lake:
        with pytest.raises(LakeError, match="clock"):
            prepare_retention(lake, DAYS, trust=ClockTrust.CHECKED)

        assert lake.rows("select * from meta.retention") == []
        assert retention_now(lake, ClockTrust.CHECKED, is_trusted=True) == ahead
