"""A build computes the models below changed tables, and nothing else."""

import shutil
from datetime import UTC, datetime, timedelta

import pytest

from fleetlake.care.maintenance import maintain
from fleetlake.lake import open_lake
from fleetlake.marts import build_marts
from fleetlake.marts.catalogue import mart_meanings
from fleetlake.marts.marks import OURS
from fleetlake.marts.plan import last_built, plan_build

pytestmark = pytest.mark.xdist_group("marts")  # they share a build, which takes seconds

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
LOGIN = {"action_id": "a1", "action_type_name": "login", "action_timestamp": NOON}


@pytest.fixture
def lake(built, tmp_path):
    """Return a lake with everything built."""
    return shutil.copytree(built[0], tmp_path / "lake")


def computed(result):
    return {m.name for m in result.models}


@pytest.mark.proof
def test_nothing_is_computed_if_nothing_is_new(lake):
    steps = []

    result = build_marts(lake, on_progress=steps.append)

    assert (result.models, result.tests, steps) == ((), (), [])


@pytest.mark.proof
def test_only_models_below_new_rows_are_computed_and_tested(lake, add):
    add(lake, "activity_logs", LOGIN)

    result = build_marts(lake)

    assert computed(result) == {"change_log", "security_events"}
    assert {t.model for t in result.tests} == computed(result)
    assert computed(build_marts(lake)) == set()


def planned(lake, **wish):
    """Return the models that a build of the lake's newest snapshot would compute."""
    with open_lake(lake, read_only=True) as opened:
        ((newest,),) = opened.rows("select max(snapshot_id) from lake.snapshots()")
        choice = {"select": None, "is_full": False, **wish}
        return plan_build(opened, last_built(lake / "dbt"), until=newest, **choice)


EVERYTHING = ()
"""dbt's options to compute everything."""


@pytest.mark.proof
def test_a_full_build_is_planned_to_compute_everything(lake):
    plan = planned(lake, is_full=True)

    assert (plan.options, plan.is_full) == (EVERYTHING, True)


@pytest.mark.proof
def test_the_next_build_computes_changes_that_a_selection_left_out(lake, add):
    add(lake, "activity_logs", LOGIN)
    build_marts(lake, select="security_events")

    assert computed(build_marts(lake)) == {"change_log", "security_events"}


@pytest.fixture
def forgetful(lake, add):
    """Return a lake with new rows that no longer knows which tables have them."""
    add(lake, "activity_logs", LOGIN)
    with open_lake(lake) as opened:
        maintain(opened, keep=timedelta(0))
    return lake


@pytest.mark.proof
def test_everything_is_planned_if_the_lake_no_longer_knows_what_changed(forgetful):
    assert planned(forgetful).options == EVERYTHING


@pytest.mark.proof
def test_rows_that_no_mart_depends_on_start_no_build(lake, add):
    add(lake, "router_logs", {"router_id": 1, "created_at_timeuuid": "l1"})

    assert computed(build_marts(lake)) == set()


def read_until(lake, instant):
    """Record that a stream was read up to an instant without new rows."""
    with open_lake(lake) as opened:
        opened.execute("insert into meta.reads (read_until) values (?)", [instant])


def test_a_read_without_new_rows_starts_no_build(lake):
    read_until(lake, NOON)

    assert computed(build_marts(lake)) == set()


@pytest.mark.release
def test_a_record_stamped_ahead_of_the_service_does_not_advance_the_current_time(lake, add):
    far = NOON.replace(year=2031)
    ahead = {"uuid": "f1", "router_id": 1, "started_at": NOON, "updated_at": far}
    add(lake, "failovers", ahead)
    read_until(lake, NOON + timedelta(hours=1))

    build_marts(lake, select="source:raw.failovers+,+failover_now")

    with open_lake(lake, read_only=True) as opened:
        assert opened.rows(
            "select as_of_at, so_far_s from marts.failover_now where router_id = 1"
        ) == [(NOON + timedelta(minutes=65), 3900.0)]


@pytest.mark.proof
def test_a_mart_whose_only_unit_is_recomputed_is_still_marked_as_built(lake, add):
    """Its table is replaced, which loses the mark; without it, the mart would outlive its model."""
    sample = {"net_device_id": 1, "created_at": NOON, "created_at_timeuuid": "2", "bytes_in": 1}
    add(lake, "net_device_usage_samples", sample)

    result = build_marts(lake)

    with open_lake(lake, read_only=True) as opened:
        marks = opened.rows(
            "select table_name, comment from duckdb_tables()"
            " where database_name = 'lake' and schema_name = 'marts'"
        )
    assert not result.is_full
    meanings = mart_meanings()
    assert dict(marks) == {n: f"{about}\n{OURS}" for n, (about, _) in meanings.items()}
