"""Pushed alerts in what keeps a lake right: status, check, repair, retention, erasure, rebuild."""

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fleetlake.care.integrity.check import check_lake
from fleetlake.care.integrity.rebuild import rebuild_catalog
from fleetlake.care.maintenance import maintain
from fleetlake.cli import app
from fleetlake.endpoints.relations import Thing
from fleetlake.errors import UsageError
from fleetlake.lake import Lake, open_lake
from fleetlake.lake.attach import CATALOG, FILES
from fleetlake.lake.retention_rules import set_rules
from fleetlake.loading.ingest import endpoint_with_past, endpoints_to_read
from fleetlake.loading.quarantine import quarantined, retry_quarantined
from fleetlake.loading.repair import plan_repair, repair
from fleetlake.monitoring.doctor import run_checks
from fleetlake.monitoring.push_status import PushStatus, push_status, waiting_line
from fleetlake.privacy.erase import erase
from fleetlake.receiving.drain import drain_all
from fleetlake.receiving.journal_table import JOURNAL_FILE, JournalDamaged, JournalTable
from fleetlake.settings import Settings
from tests.support.alert_messages import (
    NOON,
    an_alert,
    poll,
    push,
    staged,
    with_id,
    without_id,
)
from tests.support.journals import bodies, on_disk
from tests.support.processes import environment
from tests.support.sim import Sim

FIRST, SECOND, THIRD = an_alert(1), an_alert(2, seconds=90), an_alert(3, seconds=180, router=8)
IDS = [alert["created_at_timeuuid"] for alert in (FIRST, SECOND, THIRD)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "push-journal"


@pytest.fixture
def lake(lake_path: Path, folder: Path) -> Iterator[Lake]:
    """Return a lake with three pushed alerts, of which a poll has read the first two."""
    push(folder, with_id(FIRST), without_id(SECOND), with_id(THIRD))
    drain_all(lake_path, folder)
    with open_lake(lake_path) as opened:
        poll(opened, [FIRST, SECOND])
        yield opened


def shown(lake: Lake) -> list[str]:
    return [alert_id for (alert_id,) in staged(lake, "alert_id")]


def in_files(lake: Lake) -> None:
    """Write rows that the catalog holds into files."""
    with lake.transaction():
        lake.execute("call ducklake_flush_inlined_data('lake')")


def lose(lake_path: Path, table: str) -> None:
    """Delete the files of a table."""
    files = [*(lake_path / FILES / table).glob("*.parquet")]
    assert files
    for file in files:
        file.unlink()


def repaired(lake_path: Path) -> list[str]:
    """Repair a lake as far as it can be without the service; return what was said of each loss."""
    plan = plan_repair(lake_path)
    repair(lake_path, plan)
    assert check_lake(lake_path).damages == ()
    return [loss.prospect for loss in plan.losses]


# --- status ---------------------------------------------------------------------------------


def test_the_status_counts_what_polls_and_pushes_do_not_have_in_common(lake, folder):
    polled = an_alert(9, seconds=600)
    poll(lake, [polled])
    push(folder, b"garbage", with_id(an_alert(4)))

    found = push_status(lake, now=NOON + timedelta(hours=2), journal=folder)

    assert found == PushStatus(
        alerts=3,
        received_at=NOON,
        unconfirmed=1,
        unpushed=1,
        waiting_messages=2,
        waiting_bytes=found.waiting_bytes,
        waiting_since=NOON,
    )
    assert found.waiting_bytes == sum(map(len, bodies(folder)))


def test_a_damaged_or_lost_journal_is_in_the_status_and_fails_doctor_and_check(
    lake, lake_path, folder
):
    settings = Settings(lake=lake_path, push_journal=folder)
    push(folder, with_id(an_alert(4)))
    [whole] = [one for one in run_checks(settings) if one.name == "journal"]
    (folder / JOURNAL_FILE).write_bytes(b"rubbish" * 999)
    damaged = push_status(lake, now=NOON, journal=folder)
    [failed] = [one for one in run_checks(settings) if one.name == "journal"]
    lake.connection.close()
    checked = CliRunner().invoke(
        app, ["check"], env={**environment(lake_path.parent), "COLUMNS": "200"}
    )
    (folder / JOURNAL_FILE).unlink()
    with open_lake(lake_path, read_only=True) as again:
        lost = push_status(again, now=NOON, journal=folder)

    assert (whole.found, whole.error) == ("whole; 1 pushed message not in the lake yet", None)
    assert damaged.waiting_messages is None
    [line] = waiting_line(damaged)
    assert "is damaged: file is not a database" in line
    assert "move the folder away" in line
    assert failed.error is not None
    assert isinstance(checked.exception, JournalDamaged)
    assert "is lost or was replaced" in (lost.journal_fault or "")


def test_a_young_push_is_not_called_unconfirmed_and_a_young_alert_not_unpushed(lake, folder):
    poll(lake, [an_alert(9, seconds=600)])

    found = push_status(lake, now=NOON + timedelta(minutes=12), journal=folder)

    assert (found.unconfirmed, found.unpushed) == (0, 0)


def test_alerts_from_before_the_first_push_are_not_called_unpushed(lake, folder):
    poll(lake, [an_alert(9, seconds=-3600)])

    assert push_status(lake, now=NOON + timedelta(hours=2), journal=folder).unpushed == 0


# --- requests -------------------------------------------------------------------------------


def test_pushed_alerts_are_never_requested(sim: Sim) -> None:
    settings = sim.settings()

    assert "pushed_alerts" not in {e.name for e in endpoints_to_read(settings, [])}
    for ask in (lambda: endpoints_to_read(settings, ["pushed_alerts"]), past):
        with pytest.raises(UsageError, match="The service pushes pushed_alerts; they cannot be"):
            ask()


def past() -> Any:
    return endpoint_with_past("pushed_alerts")


# --- integrity ------------------------------------------------------------------------------


def test_a_check_of_a_lake_with_pushes_finds_nothing(lake, lake_path):
    in_files(lake)

    assert check_lake(lake_path).damages == ()


@pytest.mark.proof
def test_a_lost_file_of_pushes_is_named_and_what_polls_have_read_stays(lake, lake_path):
    in_files(lake)
    lose(lake_path, "raw/pushed_alerts")

    assert repaired(lake_path) == ["raw.alerts holds what polls have read; they read the rest"]
    assert shown(lake) == sorted(IDS[:2])
    assert lake.rows("select count(*) from meta.confirmations") == [(0,)]


@pytest.mark.proof
def test_pushes_show_again_while_the_rows_that_confirmed_them_are_lost(lake, lake_path):
    in_files(lake)
    lose(lake_path, "raw/alerts")
    repaired(lake_path)

    assert len(shown(lake)) == 3
    poll(lake, [FIRST, SECOND, THIRD])
    assert shown(lake) == sorted(IDS)


@pytest.mark.release
@pytest.mark.parametrize("table", ["confirmations", "journal_positions"])
def test_lost_confirmations_and_positions_are_written_again(lake, lake_path, folder, table):
    in_files(lake)
    lose(lake_path, f"meta/{table}")

    assert repaired(lake_path) == ["written again"]
    drain_all(lake_path, folder)
    assert shown(lake) == sorted(IDS)


@pytest.mark.proof
def test_a_catalog_built_anew_pairs_pushes_and_polled_alerts_anew(lake, lake_path, folder):
    in_files(lake)
    lake.connection.close()
    (lake_path / CATALOG).unlink()
    for suffix in ("-wal", "-shm"):
        (lake_path / f"{CATALOG}{suffix}").unlink(missing_ok=True)

    rebuild_catalog(lake_path)

    drain_all(lake_path, folder)
    with open_lake(lake_path) as anew:
        assert shown(anew) == sorted(IDS)
        assert anew.rows("select 1 from meta.watermarks where endpoint = 'pushed_alerts'") == []
    assert check_lake(lake_path).damages == ()


@pytest.mark.proof
def test_maintenance_pairs_what_an_earlier_release_has_polled(lake):
    poll(lake, [THIRD])
    with lake.transaction():  # that release knows no confirmations
        lake.execute("delete from meta.confirmations")
    assert len(shown(lake)) == 6

    maintain(lake)

    assert shown(lake) == sorted(IDS)


# --- retention, erasure, quarantine -----------------------------------------------------------


@pytest.mark.proof
def test_the_rule_of_the_polled_alerts_holds_for_the_pushed_ones(lake, lake_path):
    set_rules(lake, {"alerts": 1}, now=NOON + timedelta(days=9))

    deleted = maintain(lake, days={"alerts": 1}).rows_deleted

    assert deleted == {"alerts": 2, "pushed_alerts": 3}
    assert shown(lake) == []
    assert lake.rows("select count(*) from meta.confirmations") == [(0,)]
    assert check_lake(lake_path).damages == ()


@pytest.mark.proof
def test_an_erased_router_is_in_no_table_and_no_journal(sim: Sim, folder: Path) -> None:
    push(folder, with_id(FIRST), with_id(THIRD))
    drain_all(sim.settings().lake, folder)
    push(folder, with_id(SECOND), [with_id(an_alert(4, friendly_info="router 7 of Ann"))])

    receipt = erase(sim.settings(), [(Thing.ROUTER, 7)])

    assert b"failed over" not in on_disk(folder)
    assert b"Ann" not in on_disk(folder)
    [journal] = [one for one in receipt.outlets if one.outlet.startswith("pushed messages")]
    assert (journal.done, journal.left_to_do) == ("in the lake, and deleted here", "")
    with open_lake(sim.settings().lake) as lake:
        assert shown(lake) == [IDS[2]]
        assert push_status(lake, now=NOON, journal=folder).waiting_messages == 0


@pytest.mark.proof
def test_a_push_about_an_erased_router_leaves_the_journal_with_the_next_drain(
    sim: Sim, folder: Path
) -> None:
    push(folder, with_id(FIRST), with_id(THIRD))
    drain_all(sim.settings().lake, folder)
    with closing(JournalTable(folder)) as receiver:  # which keeps the files open
        receiver.probe()
        erase(sim.settings(), [(Thing.ROUTER, 7)])
        push(folder, with_id(an_alert(5)), with_id(an_alert(6, router=8)))

        drained = drain_all(sim.settings().lake, folder)

        assert (drained.messages, drained.alerts, drained.losses) == (2, 1, 0)
        assert b"failed over" not in on_disk(folder)


@pytest.mark.proof
def test_a_journal_that_cannot_be_emptied_is_a_failed_copy_of_the_erasure(
    sim: Sim, folder: Path
) -> None:
    push(folder, with_id(FIRST))
    drain_all(sim.settings().lake, folder)
    (folder / JOURNAL_FILE).write_bytes(b"rubbish" * 999)

    receipt = erase(sim.settings(), [(Thing.ROUTER, 7)])

    assert [one.is_failed for one in receipt.outlets if one.outlet.endswith(str(folder))] == [True]


def test_a_dead_letter_that_can_be_read_by_now_becomes_a_row(lake, lake_path, folder):
    push(folder, b"garbage")
    drain_all(lake_path, folder)
    as_sent = '{"type": "reboot", "router": 7}'
    with lake.transaction():
        lake.execute("update meta.quarantine set raw = ?", [as_sent])

    assert retry_quarantined(lake, "pushed_alerts") == (1, 0)
    assert quarantined(lake) == []
    assert ("reboot",) in staged(lake, "alert_type")
