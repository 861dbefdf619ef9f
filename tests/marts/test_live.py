"""Live marts follow alerts and failovers; what else arrives waits for the next build of all."""

import shutil
import subprocess
import sys
from datetime import UTC, datetime

import psutil
import pytest

from fleetlake.endpoints import ENDPOINTS
from fleetlake.errors import BuildFailed
from fleetlake.lake import open_lake
from fleetlake.lake.ducklake import newest_snapshot
from fleetlake.marts import build_marts, live
from fleetlake.marts.catalogue import live_tables, marts
from fleetlake.marts.dbt_process import DbtProcess
from fleetlake.marts.live import live_builds
from fleetlake.marts.plan import Built, last_built, plan_build, record_built, work_folder
from fleetlake.marts.sql_project import project_digest, project_folder
from tools.live_delay import content

pytestmark = pytest.mark.xdist_group("marts")

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
ALERT = {"created_at_timeuuid": "a1", "type": "reboot", "router_id": 1, "created_at": NOON}
LOGIN = {"action_id": "a1", "action_type_name": "login", "action_timestamp": NOON}


LIVE_MARTS = {m["name"] for m in marts() if "live" in m.get("config", {}).get("tags", ())}


def test_the_live_marts_and_tables_are_those_with_the_tag():
    assert {
        *("failover_now", "failover_episodes", "alert_volume", "location_latest", "attention")
    } == LIVE_MARTS
    assert live_tables() == {f"raw.{e.name}" for e in ENDPOINTS.values() if e.is_live}
    assert {"raw.alerts", "raw.pushed_alerts", "raw.failovers"} <= live_tables()


@pytest.fixture
def recorded(lake_path):
    """Return a lake that was built at its newest snapshot, as far as a plan can tell, and that."""
    work = work_folder(lake_path)
    with open_lake(lake_path, read_only=True) as opened:
        snapshot = newest_snapshot(opened)
    record_built(work, Built(project_digest(project_folder()), snapshot))
    return lake_path, snapshot


def planned(lake, until, *, is_live=True):
    with open_lake(lake, read_only=True) as opened:
        last = last_built(lake / "dbt")
        return plan_build(opened, last, select=None, is_full=False, is_live=is_live, until=until)


def test_a_live_build_is_planned_once_for_new_events_and_never_for_other_rows(recorded, add):
    lake, snapshot = recorded
    add(lake, "activity_logs", LOGIN)
    assert planned(lake, snapshot + 1).options is None

    add(lake, "alerts", ALERT)
    plan = planned(lake, snapshot + 2)
    assert "tag:live+,+tag:live" in plan.options
    record_built(lake / "dbt", plan.record)

    assert planned(lake, snapshot + 2).options is None
    everything = planned(lake, snapshot + 2, is_live=False)  # which live builds left out
    assert {"source:raw.alerts+", "source:raw.activity_logs+"} <= {*everything.options}
    assert (everything.record.snapshot, everything.record.live) == (snapshot + 2, None)


def test_without_marts_of_this_project_a_live_build_builds_everything(lake_path):
    plan = planned(lake_path, 1)

    assert (plan.options, plan.is_full) == ((), True)


def test_a_look_builds_if_events_have_arrived_since_the_last(lake_path, add, monkeypatch):
    """The first look builds in any case: what came before it may not be built."""
    began = []

    def build(*_, is_live, dbt, **__):
        began.append((is_live, isinstance(dbt, DbtProcess)))
        return began

    monkeypatch.setattr(live, "build_marts", build)

    with live_builds(lake_path) as look:
        looks = [look(), look()]
        add(lake_path, "activity_logs", LOGIN)
        looks.append(look())
        add(lake_path, "alerts", ALERT)
        looks += [look(), look()]

    assert [found is not None for found in looks] == [True, False, False, True, False]
    assert {*began} == {(True, True)}


def test_what_could_not_be_built_is_built_by_the_next_look(lake_path, monkeypatch):
    def fail(*_, **__):
        raise BuildFailed("One model failed.")

    with live_builds(lake_path) as look:
        monkeypatch.setattr(live, "build_marts", fail)
        with pytest.raises(BuildFailed):
            look()
        monkeypatch.setattr(live, "build_marts", lambda *_, **__: "built")
        assert look() == "built"


def volume(lake):
    with open_lake(lake, read_only=True) as opened:
        [(alerts,)] = opened.rows("select coalesce(sum(alerts), 0) from marts.alert_volume")
        [(events,)] = opened.rows("select count(*) from marts.security_events")
    return alerts, events


FAILOVER = {"uuid": "f1", "router_id": 1, "started_at": NOON}
LOCKOUT = ALERT | {"created_at_timeuuid": "a2", "type": "account_locked"}


@pytest.mark.release
@pytest.mark.usefixtures("real_dbt")
def test_one_process_builds_what_new_ones_would_and_a_failed_model_leaves_the_last_good_marts(
    built, tmp_path, add
):
    """The real dbt, kept from one build to the next: live, of a selection, failed, and all."""
    lake = shutil.copytree(built[0], tmp_path / "lake")
    alerts, events = volume(lake)
    with DbtProcess() as dbt:
        add(lake, "alerts", ALERT)
        first = build_marts(lake, is_live=True, dbt=dbt)
        process = dbt._child.pid  # noqa: SLF001 - what is kept
        assert volume(lake) == (alerts + 1, events)
        assert {m.name for m in first.models} >= LIVE_MARTS

        add(lake, "alerts", LOCKOUT)
        second = build_marts(lake, is_live=True, dbt=dbt)
        assert volume(lake) == (alerts + 2, events)
        assert {m.name for m in second.models} == {m.name for m in first.models}
        assert second.snapshot_id > first.snapshot_id
        assert build_marts(lake, is_live=True, dbt=dbt).models == ()

        add(lake, "alerts", ALERT | {"created_at_timeuuid": "a3"})
        add(lake, "failovers", *[FAILOVER] * 2)  # twice in raw, which the lake never writes
        with pytest.raises(BuildFailed, match="f1"):
            build_marts(lake, is_live=True, dbt=dbt)
        assert volume(lake) == (alerts + 3, events)  # which does not depend on failovers
        with open_lake(lake) as opened:
            opened.execute("delete from raw.failovers where uuid = 'f1'")

        build_marts(lake, dbt=dbt)
        assert volume(lake) == (alerts + 3, events + 1)
        assert dbt._child.pid == process  # noqa: SLF001 - as above
        kept = content(lake)
    build_marts(lake, is_full=True)
    assert content(lake) == kept


@pytest.mark.release
@pytest.mark.usefixtures("real_dbt")
def test_a_kept_process_ends_with_a_parent_that_is_killed_between_builds(built, tmp_path):
    lake = shutil.copytree(built[0], tmp_path / "lake")
    code = (
        "import sys, time; from pathlib import Path; from fleetlake.marts.dbt_process import *\n"
        "from fleetlake.marts import build_marts\n"
        f"lake, dbt = Path({str(lake)!r}), DbtProcess()\n"
        "build_marts(lake, select='stg_accounts', dbt=dbt)\n"
        "print(dbt._child.pid, flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as parent:
        child = psutil.Process(int(parent.stdout.readline()))
        parent.kill()

    psutil.wait_procs([child], timeout=10)
    assert not child.is_running()
