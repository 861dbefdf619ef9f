"""Incremental marts equal a full build after late rows, re-read rows and failed builds."""

import shutil
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import pytest

from fleetlake.errors import BuildFailed
from fleetlake.lake import open_lake
from fleetlake.lake.ducklake import flush_rows, rewrite_all_files
from fleetlake.marts import build_marts
from fleetlake.marts.plan import SCRATCH, build_time, plan_build

pytestmark = pytest.mark.xdist_group("marts")  # they share what makes a run of dbt cheap

START = datetime(2026, 6, 1, 6, tzinfo=UTC)
MARTS = (
    *("location_track_points", "trips", "stops", "coverage_grid", "location_gaps", "vehicle_daily"),
    *("data_usage_daily", "signal_daily"),
)
SELECT = " ".join(f"+{mart}" for mart in MARTS)


def fixes(router: int, day: int) -> list[dict[str, object]]:
    """Return a drive north: stop, ten minutes at 60 km/h, stop."""
    begin = START + timedelta(days=day)
    moved = [0, 0, *range(1, 11), 10, 10]
    minutes = [-15, 0, *range(1, 11), 11, 26]
    return [
        {
            "router_id": router,
            "created_at_timeuuid": f"{router}-{day}-{minute}",
            "created_at": begin + timedelta(minutes=minute),
            "latitude": 40 + km * 0.009,
            "longitude": -100.0,
            "mph": 37.3 if km > 0 and minute <= 10 else 0.0,
            "rsrp": -90.0 - km,
            "carrier_id": "Northcell",
        }
        for km, minute in zip(moved, minutes, strict=True)
    ]


def usage(device: int, day: int, hour: int) -> dict[str, object]:
    at = START + timedelta(days=day, hours=hour)
    return {
        "net_device_id": device,
        "created_at_timeuuid": f"{device}-{day}-{hour}",
        "created_at": at,
        "bytes_in": 1000 + hour,
        "bytes_out": 10,
        "period": 900,
    }


def signal(device: int, day: int, hour: int) -> dict[str, object]:
    at = START + timedelta(days=day, hours=hour)
    return {
        "net_device_id": device,
        "created_at_timeuuid": f"{device}-{day}-{hour}",
        "created_at": at,
        "rsrp": -90.0 - hour,
        "signal_percent": 80.0,
    }


def content(lake, *some):
    """Return the rows of each mart, without `built_at`."""
    sql = "select columns(c -> c <> 'built_at') from marts.{} order by all"
    with open_lake(lake, read_only=True) as opened:
        return {mart: opened.rows(sql.format(mart)) for mart in some}


@pytest.fixture(scope="module")
def increments(empty_lake, tmp_path_factory, add):
    """Build after each of two loads, the second late; a third build finds nothing new."""
    lake = shutil.copytree(empty_lake, tmp_path_factory.mktemp("increments") / "lake")
    loads = [
        [f for day in (0, 2) for router in (1, 2) for f in fixes(router, day)],
        [*fixes(1, 1), *fixes(2, 3)],  # late: the day between, of one router
    ]
    samples = [[(5, 0, 1), (6, 0, 1)], [(5, 0, 0), (5, 1, 1)]]
    results = []
    for load, sample in zip(loads, samples, strict=True):
        add(lake, "historical_locations", *load)
        add(lake, "net_device_usage_samples", *(usage(*one) for one in sample))
        add(lake, "net_device_signal_samples", *(signal(*one) for one in sample))
        results.append(build_marts(lake, select=SELECT))
    results.append(build_marts(lake, select=SELECT))
    return lake, results


@pytest.mark.proof
def test_a_late_row_leaves_other_units_unchanged(increments):
    with open_lake(increments[0], read_only=True) as lake:
        built = lake.rows(
            "select net_device_id, usage_date::varchar, dense_rank() over (order by built_at)"
            " from marts.data_usage_daily order by all"
        )
    assert built == [(5, "2026-06-01", 2), (5, "2026-06-02", 2), (6, "2026-06-01", 1)]


@pytest.mark.proof
def test_a_build_without_changes_writes_no_incremental_mart(increments):
    _, results = increments

    written = {m.name for m in results[-1].models if m.kind == "incremental" and m.is_written}
    assert written == set()
    assert [r.is_full for r in results] == [True, False, False]


SEEN = """
    select count(distinct p.built_at), count(distinct u.built_at), max(p.built_at),
           (select count(*) from lake.snapshots())
    from marts.location_track_points as p, marts.data_usage_daily as u
"""


@pytest.fixture(scope="module")
def whole(increments, tmp_path_factory):
    """Build the same rows at once over the marts, while a reader reads them.

    Returns the lake, and `SEEN` before the build and as the reader saw it.
    """
    lake = shutil.copytree(increments[0], tmp_path_factory.mktemp("whole") / "lake")
    with open_lake(lake, read_only=True) as reader, reader.single_snapshot():
        before = reader.rows(SEEN)
        build_marts(lake, select=SELECT, is_full=True)
        return lake, before, reader.rows(SEEN)


@pytest.mark.proof
def test_increments_with_a_late_load_give_the_same_as_one_build(increments, whole):
    rows = content(increments[0], *MARTS)

    assert rows == content(whole[0], *MARTS)
    assert all(rows.values())


@pytest.mark.proof
def test_a_full_build_over_existing_marts_is_one_commit_that_readers_do_not_notice(whole):
    lake, before, meanwhile = whole
    with open_lake(lake, read_only=True) as opened:
        [(*builds, built_at, commits)] = opened.rows(SEEN)

    assert meanwhile == before
    assert builds == [1, 1]
    assert built_at > before[0][2]
    assert commits == before[0][3] + 2  # the second adds the checksums of its files


@pytest.mark.proof
def test_trips_before_a_router_or_group_is_renamed_get_the_new_name(lake_path, add):
    sql = "select router_id, router_name, account_name, group_name from marts.trips order by all"
    router = {"id": 1, "name": "bus 1", "account_id": 5, "group_id": 20}
    add(lake_path, "historical_locations", *fixes(1, 0), *fixes(2, 0))
    add(lake_path, "routers", router)
    add(lake_path, "accounts", {"id": 5, "name": "north"})
    add(lake_path, "groups", {"id": 20, "name": "buses"})
    found = []
    for endpoint, row, is_full in (
        ("routers", None, False),
        ("routers", router | {"name": "bus one", "valid_from": START + timedelta(days=900)}, False),
        ("groups", {"id": 20, "name": "old buses"}, False),
        ("groups", None, True),
    ):
        if row and endpoint == "groups":
            with open_lake(lake_path) as lake:
                lake.execute("update raw.groups set valid_to = valid_from")
        add(lake_path, endpoint, *filter(None, [row]))
        build_marts(lake_path, select="+trips", is_full=is_full)
        with open_lake(lake_path, read_only=True) as lake:
            found.append(lake.rows(sql))

    stranger = (2, None, None, None)
    assert found[0] == [(1, "bus 1", "north", "buses"), stranger]
    assert found[1] == [(1, "bus one", "north", "buses"), stranger]
    assert found[2] == found[3] == [(1, "bus one", "north", "old buses"), stranger]


@pytest.mark.release
def test_a_score_is_kept_for_each_day_also_while_no_load_finds_another(lake_path, add):
    sql = (
        "select net_device_id, strftime(health_date, '%d'), health_category, health_score,"
        " min_health_score from marts.health_daily order by all"
    )

    def score(device, day, points, category):
        at = START + timedelta(days=day)
        changed = {"cellular_health_score": points, "cellular_health_category": category}
        return {"id": device, "net_device_id": device, "valid_from": at, **changed}

    found = []
    for day, scores, is_full in (
        (0, [score(5, 0, 70, "good"), score(6, 0, 90, "excellent")], False),
        (2, [], False),
        (3, [score(5, 3, 20, "poor")], False),
        (3, [], True),
    ):
        with open_lake(lake_path) as lake:
            for one in scores:
                lake.execute(
                    "update raw.net_device_health set valid_to = ? where id = ?",
                    [one["valid_from"], one["id"]],
                )
        add(lake_path, "net_device_health", *scores)
        add(lake_path, "net_device_usage_samples", usage(5, day, 1))
        build_marts(lake_path, select="+health_daily", is_full=is_full)
        with open_lake(lake_path, read_only=True) as lake:
            found.append(lake.rows(sql))

    good, best = ("good", 70, 70), ("excellent", 90, 90)
    assert found[0] == [(5, "01", *good), (6, "01", *best)]
    assert found[1] == [(d, f"0{n}", *one) for d, one in ((5, good), (6, best)) for n in (1, 2, 3)]
    assert found[2] == sorted([*found[1], (5, "04", "poor", 20, 20), (6, "04", *best)])
    assert found[3] == found[2]


@pytest.mark.proof
def test_a_day_becomes_complete_when_any_interface_has_a_later_sample(lake_path, add):
    select = "+data_usage_daily +signal_daily"
    days = "select net_device_id, {0}_date::varchar, is_complete from marts.{1} order by all"
    marts = {"usage": "data_usage_daily", "signal": "signal_daily"}
    found = []
    for samples, is_full in (([(5, -1, 1), (5, 0, 1)], False), ([(6, 2, 1)], False), ([], True)):
        add(lake_path, "net_device_usage_samples", *(usage(*one) for one in samples))
        add(lake_path, "net_device_signal_samples", *(signal(*one) for one in samples))
        build_marts(lake_path, select=select, is_full=is_full)
        with open_lake(lake_path, read_only=True) as lake:
            found.append([lake.rows(days.format(*one)) for one in marts.items()])

    first, second = (5, "2026-05-31", False), (5, "2026-06-01", False)
    assert found[0] == [[first, second]] * 2
    assert found[1] == found[2] == [[first, (*second[:2], True), (6, "2026-06-03", False)]] * 2


@pytest.mark.proof
def test_rows_of_a_failed_build_reach_the_lake_with_the_next_good_build(lake_path, add):
    lake = lake_path
    select = "+data_usage_daily +security_events"
    add(lake, "net_device_usage_samples", usage(5, 0, 0))
    build_marts(lake, select=select)
    add(lake, "net_device_usage_samples", usage(5, 1, 0))
    twice = {"action_id": "a", "action_type_name": "login", "action_timestamp": START}
    add(lake, "activity_logs", twice, twice)
    with pytest.raises(BuildFailed):
        build_marts(lake, select=select)
    with open_lake(lake) as opened:
        opened.execute("delete from raw.activity_logs")

    build_marts(lake, select=select)

    [days] = content(lake, "data_usage_daily").values()
    assert len(days) == 2


@pytest.mark.proof
@pytest.mark.parametrize("good", [[], fixes(1, 0)], ids=["first", "more"])
def test_bad_rows_of_a_failed_build_fail_the_next_one_too(lake_path, add, good):
    lake, select = lake_path, "+location_track_points"
    add(lake, "historical_locations", *good)
    build_marts(lake, select=select)
    add(lake, "historical_locations", fixes(1, 1)[0], fixes(1, 1)[0])  # the lake never writes this

    for _ in range(2):
        with pytest.raises(BuildFailed, match="fix_id=1-1--15"):
            build_marts(lake, select=select)


@pytest.mark.proof
def test_a_new_row_that_repeats_an_old_one_fails_the_build_and_the_next(lake_path, add):
    lake, select = lake_path, "+location_track_points"
    add(lake, "historical_locations", *fixes(1, 0))
    build_marts(lake, select=select)
    old = fixes(1, 0)[0]
    add(lake, "historical_locations", old | {"created_at": START + timedelta(days=1)})

    for _ in range(2):
        with pytest.raises(BuildFailed, match="fix_id=1-0--15, row_count=2"):
            build_marts(lake, select=select)


def judged(lake):
    with open_lake(lake, read_only=True) as opened:
        return opened.rows(
            "select fix_id, quality, dense_rank() over (order by built_at)"
            " from marts.location_track_points order by fixed_at"
        )


@pytest.mark.proof
def test_a_late_fix_re_rates_its_neighbours_and_no_other_fix(lake_path, add):
    lake, select = lake_path, "+location_track_points"
    first, far, second, *rest = fixes(1, 0)
    there = {"latitude": 50.0}
    add(lake, "historical_locations", first, far | there, second)
    build_marts(lake, select=select)
    before = judged(lake)
    hours = [timedelta(minutes=minutes) for minutes in (0, 40, 80)]
    late = [
        rest[n] | there | {"created_at": rest[0]["created_at"] + hour}
        for n, hour in enumerate(hours)
    ]
    add(lake, "historical_locations", *late)  # it was moved there, and the fixes between are wrong

    build_marts(lake, select=select)

    assert before == [("1-0--15", "good", 1), ("1-0-0", "jump", 1), ("1-0-1", "good", 1)]
    assert judged(lake) == [
        ("1-0--15", "good", 1),
        ("1-0-0", "good", 2),
        ("1-0-1", "jump", 2),
        ("1-0-2", "good", 2),
        ("1-0-3", "good", 2),
        ("1-0-4", "good", 2),
    ]


def round_trips(router: int, hours: range) -> list[dict[str, object]]:
    """Return a fix every two minutes, without a speed; trips begin ten minutes before each hour."""
    midnight = START.replace(hour=0)
    return [
        {
            "router_id": router,
            "created_at_timeuuid": f"{router}-{minute}",
            "created_at": midnight + timedelta(minutes=minute),
            "latitude": 40 + 0.009 * max(12 - abs((minute + 10) % 60 - 12), 0),
            "longitude": -100.0,
            "carrier_id": "Northcell",
        }
        for minute in range(hours.start * 60, hours.stop * 60, 2)
    ]


@pytest.mark.release
def test_trips_of_a_busy_router_are_the_same_hour_by_hour_as_at_once(lake_path, tmp_path, add):
    """A build reads only the last trips before those that new fixes may change."""
    hourly, whole = lake_path, Path(shutil.copytree(lake_path, tmp_path / "whole"))
    first, late = round_trips(1, range(60)), round_trips(2, range(60))
    missing = slice(25 * 30, 27 * 30)  # from before to after the second midnight but one
    later = [round_trips(router, range(60, 62)) for router in (1, 2)]
    loads = [[*first, *late[: missing.start], *late[missing.stop :]], late[missing], *later]
    for load in loads:
        add(hourly, "historical_locations", *load)
        build_marts(hourly, select="+trips")
    add(whole, "historical_locations", *(fix for load in loads for fix in load))

    build_marts(whole, select="+trips")

    assert content(hourly, "trips") == content(whole, "trips")
    assert len(content(whole, "trips")["trips"]) == 2 * 63


@pytest.mark.release
def test_trips_beside_a_gap_of_days_are_the_same_in_steps_as_at_once(lake_path, tmp_path, add):
    """What ends a gap changes the trip before it, and what shortens it the trip after it, too."""
    steps, whole = lake_path, Path(shutil.copytree(lake_path, tmp_path / "whole"))
    cut, away = fixes(1, 0)[:9], fixes(1, 6)[5:]
    between = fixes(1, 3)[0] | {"latitude": 41.0}
    loads = [cut, away, [between]]
    for load in loads:
        add(steps, "historical_locations", *load)
        build_marts(steps, select="+trips +stops")
    add(whole, "historical_locations", *(fix for load in loads for fix in load))

    build_marts(whole, select="+trips +stops")

    assert content(steps, "trips", "stops") == content(whole, "trips", "stops")
    with open_lake(whole, read_only=True) as opened:
        seen = opened.rows(
            "select seen_before_at, seen_after_at, is_open from marts.trips order by started_at"
        )
    assert seen == [
        (None, between["created_at"], False),
        (between["created_at"], None, False),
    ]


@pytest.mark.proof
def test_alerts_of_a_rewritten_file_count_once_in_what_is_built_from_them(lake_path, add):
    lost = {"router_id": 1, "type": "ethernet_wan_disconnected", "info": {"uid": "ethernet-wan"}}
    gone = {"router_id": 1, "type": "connection_state", "friendly_info": "Router went offline"}
    alerts = [
        alert | {"created_at_timeuuid": f"a{n}", "created_at": START, "detected_at": START}
        for n, alert in enumerate([lost, gone, lost])
    ]
    select = "+int_wan_alerts +int_connection_alerts"
    add(lake_path, "alerts", *alerts)
    build_marts(lake_path, select=select)
    with open_lake(lake_path) as lake:
        flush_rows(lake)
        lake.execute("delete from raw.alerts where created_at_timeuuid = 'a2'")
        rewrite_all_files(lake, "raw", "alerts")
    add(lake_path, "alerts", alerts[0] | {"created_at_timeuuid": "a3"})

    build_marts(lake_path, select=select)

    with duckdb.connect(lake_path / "dbt" / SCRATCH, read_only=True) as built:
        of = "select alert_id from intermediate.{} order by all"
        wan = built.sql(of.format("int_wan_alerts_polled")).fetchall()
        connection = built.sql(of.format("int_connection_alerts")).fetchall()
    assert (wan, connection) == ([("a0",), ("a2",), ("a3",)], [("a1",)])


def test_a_selection_includes_its_parents_until_everything_was_built_once(lake_path):
    with open_lake(lake_path) as opened:
        plan = plan_build(opened, None, select="trips +routers", is_full=False, until=1)

    assert (plan.options or ())[:3] == ("--select", "+trips", "+routers")


@pytest.mark.proof
def test_wrong_fixes_that_arrive_incrementally_are_rated_as_if_they_arrived_at_once(
    lake_path, tmp_path, add
):
    steps, whole = lake_path, Path(shutil.copytree(lake_path, tmp_path / "whole"))
    select = "+location_track_points"
    days = [fix for day in range(4) for fix in fixes(1, day)]
    wrong = [fix | {"latitude": 41.0 + number % 3} for number, fix in enumerate(days)]
    is_wrong = [number % 14 in (5, 6, 7, 9) for number in range(len(days))]
    served = [wrong[n] if is_wrong[n] else fix for n, fix in enumerate(days)]
    add(whole, "historical_locations", *served)
    build_marts(whole, select=select)

    for part in (1, 0):
        add(steps, "historical_locations", *served[part::2])
        build_marts(steps, select=select)

    assert content(steps, "location_track_points") == content(whole, "location_track_points")
    with open_lake(whole, read_only=True) as opened:
        ((jumps,),) = opened.rows(
            "select count(*) from marts.location_track_points where quality = 'jump'"
        )
    assert jumps == sum(is_wrong)


@dataclass
class Machines:
    """Two machines that build one lake: each has a folder for its builds, and a clock."""

    lake: Path
    patch: pytest.MonkeyPatch

    def build(self, machine: str, *, ahead_s: int = 0) -> None:
        work, theirs = self.lake / "dbt", self.lake.with_name(machine)
        if theirs.exists():
            theirs.rename(work)
        try:
            with self.patch.context() as clock:
                now = datetime.now(UTC) + timedelta(seconds=ahead_s)
                clock.setattr("fleetlake.marts.build.build_time", lambda *e: build_time(*e, now))
                build_marts(self.lake, select="+trips")
        finally:
            work.rename(theirs)

    def assert_whole(self) -> None:
        """Require that the marts are those of one build."""
        whole = Path(shutil.copytree(self.lake, self.lake.with_name("whole")))
        build_marts(whole, select="+trips")
        found = content(self.lake, "location_track_points", "trips")
        assert found == content(whole, *found)


@pytest.fixture
def machines(lake_path, monkeypatch):
    return Machines(lake_path, monkeypatch)


@pytest.mark.proof
@pytest.mark.parametrize("other", ["ours", "theirs"])
def test_no_row_is_left_out_after_a_build_by_a_clock_that_was_ahead(machines, add, other):
    """It was put back since, or is that of another machine."""
    drive = fixes(1, 0)
    add(machines.lake, "historical_locations", *drive[::2])
    machines.build("ours")
    machines.build(other, ahead_s=86_400)

    add(machines.lake, "historical_locations", *drive[1::2])
    machines.build("ours")

    machines.assert_whole()


@pytest.mark.proof
def test_rows_of_a_build_that_was_stopped_reach_the_lake_whatever_the_clocks(
    machines, add, monkeypatch
):
    drive = fixes(1, 0)
    add(machines.lake, "historical_locations", *drive[::2])
    machines.build("ours")
    machines.build("theirs", ahead_s=3600)
    add(machines.lake, "historical_locations", *drive[1::2])
    with monkeypatch.context() as stopped:
        stopped.setattr("fleetlake.marts.build._switch", stop)
        with pytest.raises(KeyboardInterrupt):
            machines.build("ours")

    add(machines.lake, "historical_locations", *fixes(2, 3))
    machines.build("ours", ahead_s=7200)

    machines.assert_whole()


def stop(*_, **__):
    raise KeyboardInterrupt


@pytest.mark.proof
def test_trips_built_before_have_the_time_zone_that_a_later_record_names(empty_lake, tmp_path, add):
    lake = shutil.copytree(empty_lake, tmp_path / "lake")
    add(lake, "historical_locations", *fixes(1, 0), *fixes(2, 0))
    build_marts(lake, select="+trips")

    add(lake, "routers", {"id": 1, "locality": "America/Denver"}, {"id": 2, "locality": "Nowhere"})
    build_marts(lake, select="+trips")

    with open_lake(lake, read_only=True) as opened:
        local = opened.rows(
            "select router_id, local_time_zone, local_hour from marts.trips order by all"
        )
    assert local == [(1, "America/Denver", 0), (2, None, 6)]
