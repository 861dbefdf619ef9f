"""A lake whose catalog is in PostgreSQL does everything that a lake in a folder does."""

import json
import signal
import subprocess
import sys
from contextlib import closing

import duckdb
import polars as pl
import pytest
from pydantic import SecretStr

from fleetlake.care.maintenance import maintain
from fleetlake.endpoints import ENDPOINTS
from fleetlake.errors import BudgetSpent, LakeBusy, LakeError, StreamBusy
from fleetlake.exporters import TARGETS
from fleetlake.exporters.export import export
from fleetlake.lake import open_lake
from fleetlake.lake.catalog import has_lake
from fleetlake.lake.locks import build_lock, commit_lock, export_lock, stream_lock
from fleetlake.lake_address import SharedLake
from fleetlake.loading.forecast import plan_ingest
from fleetlake.marts import build_marts
from fleetlake.monitoring.doctor import run_checks
from fleetlake.publishing.publish import publish
from fleetlake.service.rate_limit import SharedCallLimit, call_limit
from fleetlake.settings import Settings
from tests.support.sim import NOW
from tests.test_load import key_of

STREAM = next(iter(ENDPOINTS))


def test_a_load_into_a_shared_lake_stores_every_record_of_the_service(make_sim, shared):
    sim = make_sim()
    settings = sim.settings(lake=shared)
    sim.settings = lambda **_: settings
    sim.ingest()
    again = sim.ingest()

    alerts = ENDPOINTS["alerts"]
    with open_lake(shared, read_only=True) as lake:
        keys = lake.rows(f'select "{alerts.key[0]}" from raw.alerts')
    truth = {key_of(alerts, record) for record in sim.truth("alerts")}
    assert len(keys) == len(set(keys))
    assert set(keys) <= truth
    assert len(keys) > 0.9 * len(truth)
    assert sum(outcome.added for outcome in again) == 0


def test_a_database_without_a_lake_is_named_and_nothing_is_created_in_it(shared):
    for read in (
        lambda: publish(shared, shared / "published"),
        lambda: build_marts(shared),
    ):
        with pytest.raises(LakeError, match="There is no lake in postgres:"):
            read()

    assert not has_lake(shared)


def test_doctor_creates_no_shared_lake_and_names_a_catalog_that_it_may_not_write(
    shared, catalog, make_sim
):
    settings = make_sim().settings(lake=shared)
    without = {check.name: check for check in run_checks(settings)}["lake"]
    is_created = has_lake(shared)
    with open_lake(shared):
        pass
    writable = {check.name: check for check in run_checks(settings)}["lake"]
    with closing(shared.connect()) as connection, closing(connection.cursor()) as cursor:
        cursor.execute("drop role if exists onlooker")
        cursor.execute("create role onlooker login")
        cursor.execute("grant select on all tables in schema public to onlooker")
    onlooker = SharedLake(SecretStr(catalog.replace("user=fleet", "user=onlooker")), shared.files)
    refused = {c.name: c for c in run_checks(make_sim().settings(lake=onlooker))}["lake"]

    assert without.error is writable.error is None
    assert "`fleetlake ingest` creates it" in without.found
    assert not is_created
    assert "is writable; 0 commits so far" in writable.found
    assert "but not write to it" in refused.found


def test_a_plan_for_a_shared_lake_is_forecast_from_its_contents(make_sim, shared):
    sim = make_sim()
    settings = sim.settings(lake=shared)
    [first] = plan_ingest(settings, ["alerts"], now=NOW)
    sim.settings = lambda **_: settings
    sim.ingest("alerts")

    [again] = plan_ingest(settings, ["alerts"], now=NOW)

    assert first.calls is None
    assert again.calls is not None


def test_a_shared_lake_is_built_published_and_maintained_like_a_folder(make_sim, shared, tmp_path):
    sim = make_sim()
    settings = sim.settings(lake=shared)
    sim.settings = lambda **_: settings
    sim.ingest()
    built = build_marts(shared)
    publish(shared, tmp_path / "published")
    with open_lake(shared) as lake:
        maintain(lake)
        rows = lake.rows("select count(*) from marts.device_inventory")

    assert {model.schema for model in built.models} >= {"marts"}
    published = pl.read_parquet(tmp_path / "published" / "device_inventory" / "*.parquet")
    assert rows == [(published.height,)]
    assert published.height > 0
    with duckdb.connect(tmp_path / "published" / "fleet.duckdb", read_only=True) as reader:
        assert reader.execute("select count(*) from device_inventory").fetchall() == rows


def test_changes_are_exported_from_a_shared_lake_too(shared, tmp_path):
    target = SecretStr(str(tmp_path / "out"))
    with open_lake(shared) as lake:
        lake.execute("create table marts.trips (router_id bigint, trip_id bigint)")
        lake.execute("insert into marts.trips select 1, i from range(9) r(i)")
        [first] = export(lake, TARGETS["parquet"], target)
        lake.execute("delete from marts.trips where trip_id = 8")
        lake.execute("insert into marts.trips values (2, 1)")
        [second] = export(lake, TARGETS["parquet"], target)

    assert [(done.sent, done.removed) for done in (first, second)] == [(9, 0), (1, 1)]
    assert pl.read_parquet(tmp_path / "out" / "trips" / "*.parquet").height == 9


HOLD = """
import sys
from pydantic import SecretStr
from fleetlake.lake.locks import stream_lock
from fleetlake.lake_address import SharedLake
with stream_lock(SharedLake(SecretStr(sys.argv[1]), sys.argv[2]), sys.argv[3]):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_stream_locked_by_another_process_is_busy_until_that_process_dies(shared):
    command = [sys.executable, "-c", HOLD, shared.catalog.get_secret_value(), shared.files, STREAM]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(StreamBusy), stream_lock(shared, STREAM):
            pass
        other.send_signal(signal.SIGKILL)
    with commit_lock(shared):  # does not wait: it is another lock
        pass
    _until_free(shared)

    with stream_lock(shared, STREAM):
        pass


def _until_free(shared: SharedLake) -> None:
    """Wait until the server has noticed that a holder died, by waiting for its locks."""
    with shared.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET lock_timeout = '20s'")
        for ask in ("lock", "unlock"):
            name = f"hashtextextended('fleetlake {STREAM}', 0)"
            cursor.execute(f"SELECT pg_advisory_{ask}({name})::text")


def test_marts_are_built_by_one_machine_at_a_time(shared, monkeypatch):
    with open_lake(shared):
        pass
    monkeypatch.setattr("fleetlake.marts.build._OTHER_BUILD_SECONDS", 0)

    with build_lock(shared, seconds=0), pytest.raises(LakeBusy, match="Another build"):
        build_marts(shared)


def test_two_lock_holders_in_one_process_exclude_each_other_too(shared):
    with (
        export_lock(shared, "parquet"),
        pytest.raises(LakeError, match="is running"),
        export_lock(shared, "parquet"),
    ):
        pass
    with export_lock(shared, "parquet"):
        pass


def test_locks_can_be_taken_again_after_the_database_was_down(shared):
    with commit_lock(shared):
        pass
    with shared.connect() as connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    with pytest.raises(LakeError, match="was lost"), commit_lock(shared):
        pass

    with commit_lock(shared):
        pass


def test_a_commit_that_waits_too_long_is_a_clear_error(shared, monkeypatch):
    monkeypatch.setattr("fleetlake.lake.locks.COMMIT_LOCK_SECONDS", 0.05)
    with shared.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(hashtextextended('fleetlake commit', 0))::text")
        with pytest.raises(LakeError, match="held the catalog"), commit_lock(shared):
            pass


def test_machines_share_the_call_limits_per_minute_and_per_day(shared):
    limits = [
        SharedCallLimit(shared, account="a", calls_per_minute=5, calls_per_day=0) for _ in range(2)
    ]
    waits = [limits[number % 2].reserve() for number in range(7)]
    assert waits[:5] == [0.0] * 5
    assert all(55 < wait <= 60 for wait in waits[5:])

    daily = SharedCallLimit(shared, account="b", calls_per_minute=0, calls_per_day=2)
    assert [daily.reserve(), daily.reserve()] == [0.0, 0.0]
    with pytest.raises(BudgetSpent):
        daily.reserve()
    for limit in (*limits, daily):
        limit.close()


def test_a_call_recorded_before_the_clock_was_set_back_delays_nobody(shared):
    limit = SharedCallLimit(shared, account="c", calls_per_minute=1, calls_per_day=0)
    assert limit.reserve() == 0.0
    with shared.connect() as connection, connection.cursor() as cursor:
        cursor.execute("UPDATE fleetlake_calls SET called_at = called_at + 86400")

    assert limit.reserve() == 0.0
    limit.close()


def test_settings_name_a_shared_lake_and_its_limit(shared, monkeypatch):
    monkeypatch.setenv("FLEETLAKE_LAKE", f"postgres:{shared.catalog.get_secret_value()}")
    monkeypatch.setenv("FLEETLAKE_LAKE_FILES", shared.files)
    settings = Settings(calls_per_minute=10)
    limit = call_limit(settings, "a")
    limit.close()

    assert settings.lake == shared
    assert isinstance(limit, SharedCallLimit)


def test_the_catalogs_password_is_in_no_error(tmp_path):
    address = "host=127.0.0.1 port=1 user=fleet password=hunter2 dbname=fleet"
    lake = SharedLake(SecretStr(address), str(tmp_path))
    with pytest.raises(LakeError) as read, open_lake(lake, read_only=True):
        pass
    with pytest.raises(LakeError) as written, open_lake(lake):
        pass

    for failure in (read, written):
        assert "hunter2" not in str(failure.value) + str(failure.value.__cause__)
    assert "hunter2" not in str(lake) + repr(lake) + json.dumps(str(lake))
