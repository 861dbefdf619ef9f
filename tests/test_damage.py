"""Damage to a lake: a check names it, a repair brings back what the service still holds.

The truth comes from the simulator: after a repair, no row is wrong and none is silently missing.
`make damage-test N=200` picks damage at random and prints what each kind led to.
"""

import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from fleetlake.care.integrity.check import check_lake, note_damage
from fleetlake.care.integrity.checksums import keep_checksums, known_checksums
from fleetlake.care.integrity.damage import CheckReport, DamageKind
from fleetlake.care.integrity.listing import FileStore, listed_files
from fleetlake.care.integrity.rebuild import WORK, rebuild_catalog
from fleetlake.care.maintenance import maintain
from fleetlake.cli.check import check as check_command
from fleetlake.cli.formats import OutputFormat
from fleetlake.cli.repair import repair as repair_command
from fleetlake.endpoints import ENDPOINTS
from fleetlake.errors import LakeError, StreamBusy, Unreachable
from fleetlake.lake import open_lake
from fleetlake.lake.attach import CATALOG, FILES
from fleetlake.lake.audit_trail import read_events
from fleetlake.lake.catalog import READY
from fleetlake.lake.ducklake import flush_rows
from fleetlake.lake.gaps import gaps
from fleetlake.lake.locks import stream_lock
from fleetlake.loading.repair import RepairPlan, plan_repair, read_again, repair
from fleetlake.marts.plan import Built, Plan, last_built, plan_build, record_built
from fleetlake.marts.sql_project import project_digest, project_folder
from fleetlake.monitoring.doctor import run_checks
from tests.support.sim import NOW, Sim, copied, loaded_sim
from tests.test_load import flaws, key_of, member

pytestmark = pytest.mark.xdist_group("damage")  # they share a lake, which takes seconds

LOADED = ("users", "routers", "failovers", "activity_logs", "router_state_samples")
"""One endpoint of each sort: a history, ids of a fan-out, upserted, expiring, and fanned out."""

SAMPLES, LOGS, USERS = "raw/router_state_samples", "raw/activity_logs", "raw/users"
ROUNDS = int(os.environ.get("DAMAGE_TEST_ROUNDS", "20"))
DAY = timedelta(days=1)


@pytest.fixture(scope="module")
def loaded_once(empty_lake: Path, tmp_path_factory: pytest.TempPathFactory) -> Sim:
    """Return a service with some endpoints loaded, to be copied."""
    return loaded_sim(tmp_path_factory.mktemp("loaded"), empty_lake, *LOADED)


@pytest.fixture
def loaded(loaded_once: Sim, tmp_path: Path) -> Sim:
    """Return a service with some endpoints loaded into this test's own lake."""
    return copied(loaded_once, tmp_path)


def lake_of(sim: Sim) -> Path:
    lake: Path = sim.folder / "lake"
    return lake


def rows(sim: Sim, sql: str) -> list[tuple[Any, ...]]:
    with open_lake(lake_of(sim), read_only=True) as lake:
        return lake.rows(sql)


def file_of(lake: Path, table: str) -> Path:
    """Return the first file of a table's folder."""
    return min(lake.joinpath(FILES, table).glob("*.parquet"))


def flip(path: Path, share: float) -> None:
    """Flip one bit, at a share of the file's length."""
    content = bytearray(path.read_bytes())
    content[int(len(content) * share)] ^= 4
    path.write_bytes(content)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def cut_footer(path: Path) -> None:
    """Overwrite the length of a file's footer."""
    path.write_bytes(path.read_bytes()[:-8] + bytes(8))


def found(report: CheckReport) -> list[tuple[DamageKind, str]]:
    return [(one.kind, one.table) for one in report.damages]


def repaired(sim: Sim, *, is_full: bool = True) -> RepairPlan:
    """Repair a lake and read what was lost; return what was planned."""
    plan = plan_repair(lake_of(sim), is_full=is_full)
    repair(lake_of(sim), plan)
    outcomes = read_again(sim.settings(), plan, transport=sim.transport)
    assert [outcome.error for outcome in outcomes] == [None] * len(outcomes)
    return plan


def assert_whole(sim: Sim) -> None:
    """Assert that the lake has what the service has, and that a check finds nothing."""
    assert flaws(sim, [ENDPOINTS[name] for name in LOADED]) == {}
    assert found(check_lake(lake_of(sim), is_full=True)) == []


def test_a_check_of_a_whole_lake_finds_nothing_and_loads_give_every_file_a_checksum(
    loaded_once: Sim,
) -> None:
    report = check_lake(lake_of(loaded_once), is_full=True)

    named = {name for (name,) in rows(loaded_once, "select name from meta.files")}
    with open_lake(lake_of(loaded_once), read_only=True) as lake:
        data = {file.name for file in listed_files(lake) if file.schema == "raw"}
    assert found(report) == []
    assert report.files >= len(data) > 0
    assert data <= named


DAMAGES = {
    "deleted": (Path.unlink, DamageKind.MISSING),
    "truncated": (truncate, DamageKind.SIZE),
    "footer": (cut_footer, DamageKind.UNREADABLE),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_quick_check_names_a_damaged_file_and_its_table(loaded: Sim, damage: str) -> None:
    destroy, kind = DAMAGES[damage]
    destroy(file_of(lake_of(loaded), SAMPLES))

    report = check_lake(lake_of(loaded))

    assert found(report) == [(kind, "raw.router_state_samples")]


def test_a_full_check_finds_a_flipped_bit_that_still_decodes(loaded: Sim) -> None:
    path = file_of(lake_of(loaded), SAMPLES)
    before = rows(loaded, "select sum(hash(s)) from raw.router_state_samples s")
    for share in (0.2, 0.3, 0.4, 0.5, 0.6, 0.7):  # until a flip only changes values
        flip(path, share)
        try:
            changed = rows(loaded, "select sum(hash(s)) from raw.router_state_samples s")
        except LakeError:
            flip(path, share)
            continue
        if changed != before:
            break
        flip(path, share)

    assert found(check_lake(lake_of(loaded))) == []
    assert found(check_lake(lake_of(loaded), is_full=True)) == [
        (DamageKind.CONTENT, "raw.router_state_samples")
    ]


@pytest.mark.release
def test_a_file_swapped_with_another_table_s_is_found_and_both_come_back(loaded: Sim) -> None:
    one, other = (file_of(lake_of(loaded), table) for table in (SAMPLES, LOGS))
    between = one.with_suffix(".swap")
    one.replace(between)
    other.replace(one)
    between.replace(other)

    plan = repaired(loaded, is_full=False)

    assert {one.table for one in plan.report.damages} == {
        "raw.router_state_samples",
        "raw.activity_logs",
    }
    assert_whole(loaded)


def test_a_repair_says_which_rows_times_and_devices_a_file_held(loaded: Sim) -> None:
    [(count, first, last)] = rows(
        loaded, "select count(*), min(created_at), max(created_at) from raw.router_state_samples"
    )
    routers = sorted({record["_device"] for record in loaded.truth("router_state_samples")})
    file_of(lake_of(loaded), SAMPLES).unlink()

    [loss] = plan_repair(lake_of(loaded)).losses

    assert loss.file.of_table == "raw.router_state_samples"
    assert loss.rows == count > 0
    assert loss.held is not None
    assert loss.held.start <= first
    assert last < loss.held.end
    assert loss.devices == f"router_id {routers[0]} to {routers[-1]}"
    assert len(rows(loaded, "from meta.loads")) > 0  # nothing was forgotten yet


@pytest.mark.proof
def test_lost_rows_are_read_again_and_the_repair_is_an_event_without_devices(loaded: Sim) -> None:
    [(count,)] = rows(loaded, "select count(*) from raw.router_state_samples")
    file_of(lake_of(loaded), SAMPLES).unlink()

    repaired(loaded)

    assert_whole(loaded)
    with open_lake(lake_of(loaded), read_only=True) as lake:
        [event] = read_events(lake)
        assert gaps(lake) == []
        assert lake.rows("select count(*) from meta.lateness") == [(0,)]
    assert (event.kind, event.endpoint, event.rows) == ("repair", "router_state_samples", count)
    assert "router_id" not in f"{event.summary}{event.details}"


@pytest.mark.release
def test_lost_rows_of_a_merged_file_with_deleted_and_changed_rows_are_read_again(
    loaded: Sim,
) -> None:
    with open_lake(lake_of(loaded)) as lake:
        maintain(lake)
        lake.execute(
            "update raw.routers set name = 'x' where id = (select min(id) from raw.routers)"
        )
        lake.execute(
            "update raw.router_state_samples set _load_id = 'x' where created_at in ("
            "select created_at from raw.router_state_samples limit 500)"
        )
    for table in (SAMPLES, "raw/routers"):
        for path in lake_of(loaded).joinpath(FILES, table).glob("*.parquet"):
            path.unlink()

    repaired(loaded)

    assert_whole(loaded)


@pytest.mark.release
def test_a_list_kept_as_history_comes_back_and_its_lost_versions_are_a_gap(loaded: Sim) -> None:
    with open_lake(lake_of(loaded)) as lake:
        flush_rows(lake)  # few enough to be in the catalog until then
    file_of(lake_of(loaded), USERS).unlink()

    repaired(loaded)

    assert_whole(loaded)
    with open_lake(lake_of(loaded), read_only=True) as lake:
        [gap] = gaps(lake, only_open=True)
    assert gap.endpoint == "users"
    assert "earlier versions are lost" in gap.reason


@pytest.mark.release
def test_what_the_service_no_longer_holds_is_a_gap_that_names_the_lost_file(loaded: Sim) -> None:
    file_of(lake_of(loaded), LOGS).unlink()
    loaded.advance((29 * DAY).total_seconds())

    repaired(loaded)

    with open_lake(lake_of(loaded), read_only=True) as lake:
        [gap] = gaps(lake)
    kept = {key for (key,) in rows(loaded, "select action_id from raw.activity_logs")}
    endpoint = ENDPOINTS["activity_logs"]
    path = endpoint.column("action_timestamp").path
    unseen = [
        datetime.fromisoformat(member(record, path))
        for record in loaded.truth("activity_logs", NOW + 28 * DAY)
        if key_of(endpoint, record)[0] not in kept
    ]
    assert gap.reason.endswith("its file was lost")
    assert unseen
    assert {at for at in unseen if not gap.start_at <= at < gap.end_at} == set()


class Down(httpx.AsyncBaseTransport):
    """A service that cannot be reached."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("down", request=request)


@pytest.mark.release
def test_without_the_service_the_next_ingest_reads_what_a_repair_has_forgotten(
    loaded: Sim,
) -> None:
    file_of(lake_of(loaded), SAMPLES).unlink()
    plan = plan_repair(lake_of(loaded))
    repair(lake_of(loaded), plan)
    with pytest.raises(Unreachable):
        read_again(loaded.settings(), plan, transport=Down())

    assert rows(loaded, "select count(*) from raw.router_state_samples") == [(0,)]
    loaded.ingest("routers", "router_state_samples")
    assert_whole(loaded)


@pytest.mark.release
def test_a_repair_that_is_stopped_leaves_a_table_that_fails_until_the_next_repair(
    loaded: Sim, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    path = file_of(lake_of(loaded), SAMPLES)
    size = path.stat().st_size
    path.unlink()
    plan = plan_repair(lake_of(loaded))
    with monkeypatch.context() as patch:
        patch.setattr("fleetlake.care.integrity.forget.balance_loads", stop)
        with pytest.raises(KeyboardInterrupt):
            repair(lake_of(loaded), plan)

    assert path.stat().st_size == size
    with pytest.raises(LakeError):
        rows(loaded, "select sum(hash(s)) from raw.router_state_samples s")
    assert found(check_lake(lake_of(loaded))) == [(DamageKind.CONTENT, "raw.router_state_samples")]
    repaired(loaded)
    assert_whole(loaded)


def test_a_repair_waits_for_no_load_and_changes_nothing_meanwhile(loaded: Sim) -> None:
    file_of(lake_of(loaded), SAMPLES).unlink()
    plan = plan_repair(lake_of(loaded))

    with stream_lock(lake_of(loaded), "users"), pytest.raises(StreamBusy):
        repair(lake_of(loaded), plan)

    assert plan_repair(lake_of(loaded)) == plan


@pytest.mark.release
@pytest.mark.parametrize("table", ["intervals", "watermarks", "lake", "loads", "files"])
def test_a_lost_table_of_meta_is_proven_or_written_anew(loaded: Sim, table: str) -> None:
    with open_lake(lake_of(loaded)) as lake:
        maintain(lake)
    for path in lake_of(loaded).joinpath(FILES, "meta", table).glob("*.parquet"):
        path.unlink()

    plan = plan_repair(lake_of(loaded))
    repair(lake_of(loaded), plan)
    outcomes = loaded.ingest(*LOADED)

    assert {one.file.of_table for one in plan.losses} == {f"meta.{table}"}
    assert [(one.added, one.changed, one.lost) for one in outcomes] == [(0, 0, 0)] * len(LOADED)
    assert_whole(loaded)


def planned(loaded: Sim, work: Path, *, until: int) -> Plan:
    with open_lake(lake_of(loaded), read_only=True) as lake:
        return plan_build(lake, last_built(work), select=None, is_full=False, until=until)


@pytest.mark.release
def test_a_damaged_mart_is_dropped_until_the_next_build_which_is_a_full_one(
    loaded: Sim, tmp_path: Path
) -> None:
    with open_lake(lake_of(loaded)) as lake:
        lake.execute("create table marts.uptime as from range(1000)")
        [(snapshot,)] = lake.rows("select max(snapshot_id) from lake.snapshots()")
    work = tmp_path / "dbt"
    work.mkdir()
    record_built(work, Built(project_digest(project_folder()), snapshot))
    before = planned(loaded, work, until=snapshot)
    file_of(lake_of(loaded), "marts/uptime").unlink()

    repaired(loaded)

    after = planned(loaded, work, until=snapshot + 1)
    assert rows(loaded, "from duckdb_tables() where schema_name = 'marts'") == []
    assert (before.is_full, after.is_full) == (False, True)


@pytest.mark.release
def test_damage_to_an_older_snapshot_costs_only_that_snapshot(loaded: Sim) -> None:
    with open_lake(lake_of(loaded)) as lake:
        [(snapshot,)] = lake.rows("select max(snapshot_id) from lake.snapshots()")
        lake.execute(
            "create or replace table raw.router_state_samples as "
            "from raw.router_state_samples order by created_at"
        )
        [old] = [f for f in listed_files(lake) if f.ended and f.schema == "raw"]
    lake_of(loaded).joinpath(FILES, old.name).unlink()

    plan = repaired(loaded)

    assert plan.losses == ()
    assert plan.to_read == ()
    assert_whole(loaded)
    with pytest.raises(LakeError, match="No snapshot found"):
        rows(loaded, f"from raw.router_state_samples at (version => {snapshot})")


def test_old_files_that_no_snapshot_reads_are_found_and_young_ones_are_not(loaded: Sim) -> None:
    folder = lake_of(loaded) / FILES / SAMPLES
    source = file_of(lake_of(loaded), SAMPLES)
    for name, age in (("old", 2 * DAY), ("young", DAY / 2)):
        stray = Path(shutil.copy(source, folder / f"{name}.parquet"))
        written = stray.stat().st_mtime - age.total_seconds()
        os.utime(stray, (written, written))

    [damage] = check_lake(lake_of(loaded)).damages

    assert (damage.kind, damage.name) == (DamageKind.UNKNOWN, f"{SAMPLES}/old.parquet")


@pytest.mark.release
@pytest.mark.parametrize(
    "change",
    [
        "delete from raw.router_state_samples where created_at > '2026-06-14'",
        *(
            pytest.param(change, marks=pytest.mark.release)
            for change in (
                "delete from meta.loads where endpoint = 'router_state_samples'",
                (
                    "insert into meta.intervals select * from meta.intervals "
                    "where endpoint = 'router_state_samples' limit 1"
                ),
                "delete from meta.watermarks where endpoint = 'router_state_samples'",
            )
        ),
    ],
)
def test_rows_and_meta_that_contradict_each_other_are_found_and_read_again(
    loaded: Sim, change: str
) -> None:
    with open_lake(lake_of(loaded)) as lake:
        lake.execute(change)

    plan = repaired(loaded)

    assert {damage.kind for damage in plan.report.damages} == {DamageKind.INDEX}
    assert plan.contradicted == ("router_state_samples",)
    assert_whole(loaded)


def test_maintenance_refuses_to_merge_a_changed_file_into_a_new_one(loaded: Sim) -> None:
    flip(file_of(lake_of(loaded), SAMPLES), 0.5)

    with open_lake(lake_of(loaded)) as lake, pytest.raises(LakeError, match="changed after"):
        maintain(lake)


@pytest.mark.proof
def test_each_finding_is_one_event_and_doctor_names_it(loaded: Sim) -> None:
    file_of(lake_of(loaded), SAMPLES).unlink()

    checks = {check.name: check for check in run_checks(loaded.settings())}
    note_damage(lake_of(loaded), check_lake(lake_of(loaded)))

    assert checks["integrity"].error is not None
    assert checks["integrity"].error.exit_code == LakeError.exit_code
    with open_lake(lake_of(loaded), read_only=True) as lake:
        assert [event.kind for event in read_events(lake)] == ["check"]


LOSSES: dict[str, Callable[[Path], object]] = {
    "deleted": Path.unlink,
    "emptied": lambda catalog: catalog.write_bytes(b""),
}


@pytest.mark.parametrize("loss", LOSSES)
def test_a_lake_without_its_catalog_is_never_replaced_by_an_empty_one(
    loaded: Sim, loss: str
) -> None:
    LOSSES[loss](lake_of(loaded) / CATALOG)
    before = {path: path.stat().st_size for path in lake_of(loaded).rglob("*") if path.is_file()}

    for use in (
        lambda: rows(loaded, "from meta.loads"),
        lambda: loaded.ingest("users"),
        lambda: check_lake(lake_of(loaded)),
        lambda: plan_repair(lake_of(loaded)),
    ):
        with pytest.raises(LakeError, match="has lost its catalog") as caught:
            use()
        assert "--rebuild-catalog" in caught.value.remedy

    after = {path: path.stat().st_size for path in lake_of(loaded).rglob("*") if path.is_file()}
    assert after == before


@pytest.mark.release
def test_a_new_lake_is_created_in_an_emptied_folder(loaded: Sim) -> None:
    shutil.rmtree(lake_of(loaded) / FILES)
    for path in lake_of(loaded).glob("[!.]*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()

    assert (lake_of(loaded) / READY).exists()
    assert rows_of_new(lake_of(loaded)) == [(0,)]


def rows_of_new(path: Path) -> list[tuple[Any, ...]]:
    with open_lake(path) as lake:
        return lake.rows("select count(*) from raw.users")


def damage_page(lake: Path, number: int) -> None:
    """Overwrite a page of the catalog."""
    with closing(sqlite3.connect(lake / CATALOG)) as opened:
        opened.execute("pragma wal_checkpoint(truncate)")
        [(size,)] = opened.execute("pragma page_size").fetchall()
    with (lake / CATALOG).open("r+b") as file:
        file.seek(size * number)
        file.write(b"\x5a" * size)


@pytest.mark.parametrize("page", [0, 2])
def test_a_damaged_page_of_the_catalog_is_recognised(loaded: Sim, page: int) -> None:
    damage_page(lake_of(loaded), page)

    assert {kind for kind, _ in found(check_lake(lake_of(loaded)))} == {DamageKind.CATALOG}
    with pytest.raises(LakeError, match="in the catalog") as caught:
        plan_repair(lake_of(loaded))
    assert "fleetlake restore" in caught.value.remedy


@pytest.mark.release
def test_a_catalog_built_anew_has_every_row_once_and_proves_all_of_them_again(
    loaded: Sim,
) -> None:
    loaded.advance(DAY.total_seconds())
    loaded.ingest(*LOADED)
    with open_lake(lake_of(loaded)) as lake:
        maintain(lake, keep=DAY)  # the files before the merge stay
        lake.execute("update raw.failovers set _load_id = 'x'")
    damage_page(lake_of(loaded), 2)

    rebuilt = rebuild_catalog(lake_of(loaded))

    endpoints = [ENDPOINTS[name] for name in LOADED]
    assert flaws(loaded, endpoints, NOW + DAY) == {}
    assert (rebuilt.unreadable, rebuilt.unknown) == ((), ())
    assert rows(loaded, "select count(*) from meta.intervals") == [(0,)]
    outcomes = loaded.ingest(*LOADED)
    assert [(one.added, one.changed, one.lost) for one in outcomes] == [(0, 0, 0)] * len(LOADED)
    assert found(check_lake(lake_of(loaded), is_full=True)) == []


def test_a_whole_catalog_is_not_built_anew(loaded: Sim) -> None:
    with pytest.raises(LakeError, match="is intact"):
        rebuild_catalog(lake_of(loaded))


@pytest.mark.proof
def test_the_commands_list_damage_what_was_lost_and_then_nothing(
    loaded: Sim, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FLEETLAKE_LAKE", str(lake_of(loaded)))
    file_of(lake_of(loaded), SAMPLES).unlink()

    with pytest.raises(LakeError, match="1 file missing") as caught:
        check_command(output=OutputFormat.JSON)
    [damage] = json.loads(capsys.readouterr().out)
    repair_command(dry_run=True, full=False, output=OutputFormat.JSON)
    [loss] = json.loads(capsys.readouterr().out)
    repair_command(full=False, load=False)
    check_command(output=OutputFormat.CSV)

    assert "fleetlake repair --dry-run" in caught.value.remedy
    assert (damage["table"], damage["damage"]) == ("raw.router_state_samples", "missing")
    assert (loss["table"], loss["prospect"]) == ("raw.router_state_samples", "read again")
    assert capsys.readouterr().out.splitlines()[-1] == "table,file,damage,found"


def test_the_checksum_of_a_file_that_is_gone_is_forgotten_and_no_other(lake_path: Path) -> None:
    with open_lake(lake_path) as lake:
        lake.execute("insert into raw.groups (id) select i from range(500) r(i)")
        keep_checksums(lake)
        known = known_checksums(lake)
        lake.execute("insert into meta.files (name, size_bytes, sha256) values ('gone', 1, 'x')")

        keep_checksums(lake)

        assert known_checksums(lake) == known
        assert any("groups" in name for name in known)


@pytest.mark.proof
def test_a_rebuilt_catalog_replaces_all_of_the_lost_one_and_leaves_no_folder_of_its_own(
    lake_path: Path, flushes: list[Callable[[], None]]
) -> None:
    (lake_path / CATALOG).unlink()
    (lake_path / READY).unlink()
    (lake_path / f"{CATALOG}-wal").write_bytes(b"of the lost catalog")
    (lake_path / WORK).mkdir()
    (lake_path / WORK / CATALOG).write_bytes(b"of a rebuild that was stopped")
    states: list[list[bool]] = []
    names = (CATALOG, f"{CATALOG}-wal")
    flushes.append(lambda: states.append([(lake_path / name).exists() for name in names]))

    rebuild_catalog(lake_path)

    assert states[-2:] == [[False, False], [True, False]]  # files first, then what names them
    assert (lake_path / READY).exists()
    assert not (lake_path / WORK).exists()
    assert not (lake_path / f"{CATALOG}-wal").exists()
    assert found(check_lake(lake_path)) == []


def test_a_file_that_cannot_be_replaced_leaves_no_part_of_the_new_one(tmp_path: Path) -> None:
    (tmp_path / FILES / "in_its_place.parquet").mkdir(parents=True)

    with pytest.raises(IsADirectoryError):
        FileStore(tmp_path).replace("in_its_place.parquet", b"new")

    assert [file.name for file in (tmp_path / FILES).iterdir()] == ["in_its_place.parquet"]
