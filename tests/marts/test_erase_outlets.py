"""Erasing from everything made of a lake: marts, published snapshots and exports."""

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from adbc_driver_postgresql import dbapi
from pydantic import SecretStr

from fleetlake.care.backups.backup import back_up
from fleetlake.care.maintenance import maintain
from fleetlake.exporters import TARGETS
from fleetlake.exporters.export import export
from fleetlake.lake import open_lake
from fleetlake.lake.retention_rules import prepare_retention
from fleetlake.marts import build_marts
from fleetlake.marts.build import forget_scratch
from fleetlake.privacy.after_retention import (
    backups_with_deleted_rows,
    renew_after_retention,
)
from fleetlake.privacy.erase import erase
from fleetlake.privacy.receipt import raise_unfinished
from fleetlake.publishing.publish import publish
from fleetlake.settings import ClockTrust, Settings
from fleetsim.app import create_app
from fleetsim.options import SimulatorOptions
from tests.marts.conftest import LOADED_AT
from tests.support.leaks import scan
from tests.support.servers import postgres
from tests.support.sim import Sim
from tests.test_erase import ids_of, texts_of, wanted

FILES = ("parquet", "geoparquet", "csv", "jsonl", "delta", "iceberg")
TABLES = ("raw.users", "raw.routers", "raw.activity_logs", "device_inventory", "change_log")
SOFT = {"routers": "soft_delete"}

pytestmark = pytest.mark.release


@pytest.fixture
def fleet(make_lake: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Sim:
    """Return a service whose fleet is loaded and built."""
    folder = tmp_path_factory.mktemp("fleet")
    make_lake(folder)
    app = create_app(SimulatorOptions(routers=12, days=4, now=LOADED_AT, speed=0))
    build_marts(folder / "lake")
    return Sim(app, folder)


def export_all(settings: Settings) -> None:
    with open_lake(settings.lake) as lake:
        for name, address in settings.exports.items():
            export(lake, TARGETS[name], address, TABLES, modes=SOFT)


@pytest.mark.parametrize(
    "has_server", [False, pytest.param(True, marks=pytest.mark.postgres)], ids=["files", "server"]
)
def test_marts_snapshots_and_exports_follow_an_erasure(
    fleet: Sim, tmp_path: Path, has_server: bool
) -> None:
    addresses = {name: SecretStr(str(tmp_path / name)) for name in FILES}
    if has_server:
        addresses["postgres"] = SecretStr(postgres())
    settings = fleet.settings(exports=addresses, published=tmp_path / "published")
    publish(settings.lake, settings.published, raw=["users"])
    publish(settings.lake, settings.published, raw=["users"])
    export_all(settings)
    with open_lake(settings.lake) as lake:  # and an earlier version of each exported table
        lake.execute("update raw.users set first_name = first_name || 'x' where valid_to is null")
        [(_, router), *_] = wanted(fleet)  # at the targets, it is marked as deleted
        lake.execute("update raw.routers set valid_to = now() where id = ?", [router])
    export_all(settings)
    texts, ids = texts_of(fleet), ids_of(fleet)
    folders = [tmp_path, fleet.folder]
    assert scan(folders, texts=texts, ids=ids).leaks

    receipt = erase(settings, wanted(fleet))
    raise_unfinished(receipt.outlets)

    found = scan(folders, texts=texts, ids=ids)
    assert found.leaks == []
    with open_lake(settings.lake, read_only=True) as lake:
        [(trips,)] = lake.rows("select count(distinct router_id) from marts.device_inventory")
        raw = (settings.published / "raw_users").is_dir()
    assert trips == len(fleet.truth("routers")) - 1
    assert raw
    if has_server:
        assert_not_in_postgres(postgres(), texts)
    export_all(settings)  # goes on from there
    assert scan(folders, texts=texts, ids=ids).leaks == []


HOLDING = ("raw.historical_locations", "location_track_points", "change_log")
"""Tables with an id of each fix, or of each activity."""

DAYS = {"historical_locations": 1, "activity_logs": 1}


def test_copies_follow_when_maintenance_deletes_rows_past_their_days(
    make_lake: Callable[..., Path], tmp_path: Path
) -> None:
    lake = make_lake(tmp_path, "routers", "historical_locations", "locations", "activity_logs")
    addresses = {name: SecretStr(str(tmp_path / name)) for name in FILES}
    settings = Settings(
        lake=lake,
        published=tmp_path / "published",
        exports=addresses,
        retention=DAYS,
        clock="service",
    )
    build_marts(lake)
    publish(lake, settings.published, raw=["historical_locations"])
    publish(lake, settings.published, raw=["historical_locations"])
    with open_lake(lake) as opened:
        for name in FILES:
            export(opened, TARGETS[name], addresses[name], HOLDING)
        prepare_retention(opened, DAYS, trust=ClockTrust.SERVICE)
        maintain(opened, keep=timedelta(0), days=DAYS)
        [(start,)] = opened.rows("select min(kept_from) from meta.retention")
    back_up(lake, str(tmp_path / "backups"))
    gone = sorted(ids_before(start))[::40]  # a search for each of them takes long
    copies = [lake / "files", *(tmp_path / name for name in (*FILES, ".published"))]
    assert scan(copies[1:], texts=gone, ids=()).leaks

    done = [*renew_after_retention(settings)]
    [backups] = backups_with_deleted_rows(settings, [str(tmp_path / "backups")])
    again = [*renew_after_retention(settings)]

    raise_unfinished(done)
    assert [one.outlet.partition(" ")[0] for one in done] == [
        *("marts", "published"),
        *["export"] * len(FILES),
    ]
    assert backups.done == "in no backup"
    assert again == []
    with open_lake(lake) as opened:
        maintain(opened, keep=timedelta(0), days=DAYS)  # the earlier rows of the marts
    forget_scratch(lake)
    assert scan(copies, texts=gone, ids=()).leaks == []
    assert (settings.published / "raw_historical_locations").is_dir()
    with open_lake(lake) as opened:
        [(kept,)] = opened.rows("select count(*) from raw.historical_locations")
        [(points,)] = opened.rows("select count(*) from marts.location_track_points")
    assert kept == points > 0


def ids_before(start: datetime) -> set[str]:
    """Return the ids of the fixes and of the activity that the service had before an instant."""
    app = create_app(SimulatorOptions(routers=12, days=4, now=LOADED_AT, speed=0))
    sim = Sim(app, Path())
    fixes = {
        one["created_at_timeuuid"]
        for one in sim.truth("historical_locations")
        if datetime.fromisoformat(one["created_at"]) < start
    }
    actions = [one["action"] for one in sim.truth("activity_logs")]
    return fixes | {
        one["id"] for one in actions if datetime.fromisoformat(one["timestamp"]) < start
    }


def assert_not_in_postgres(address: str, texts: set[str]) -> None:
    """Look through the rows and statistics of every exported table."""
    with dbapi.connect(address) as connection, connection.cursor() as cursor:
        cursor.execute("select tablename from pg_tables where schemaname = current_schema()")
        for (table,) in cursor.fetchall():
            cursor.execute(f'select t::text from "{table}" t')
            rows = "\n".join(text for (text,) in cursor.fetchall() if text).lower()
            assert not any(text.lower() in rows for text in texts)
        cursor.execute(
            "select most_common_vals::text, histogram_bounds::text from pg_stats "
            "where schemaname = current_schema()"  # other tests export the same fleet elsewhere
        )
        held = str(cursor.fetchall()).lower()
        assert not any(text.lower() in held for text in texts)


def test_incremental_marts_lose_the_days_that_retention_deleted(
    make_lake: Callable[..., Path], tmp_path: Path
) -> None:
    lake = make_lake(tmp_path, "routers", "historical_locations", "locations")
    build_marts(lake)
    oldest = "select min(fix_date), count(*) from marts.location_track_points"
    with open_lake(lake) as opened:
        [(first, before)] = opened.rows(oldest)
        days = {"historical_locations": 1}
        prepare_retention(opened, days, trust=ClockTrust.SERVICE)
        maintain(opened, days=days)
        [(start,)] = opened.rows("select kept_from::date from meta.retention")

    assert build_marts(lake).is_full
    assert not build_marts(lake).models

    with open_lake(lake, read_only=True) as opened:
        [(now_first, after)] = opened.rows(oldest)
        [(kept,)] = opened.rows("select count(*) from raw.historical_locations")
    assert first < start <= now_first
    assert after == kept < before
