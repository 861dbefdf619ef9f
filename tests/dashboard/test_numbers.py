"""The numbers of the pages are those of the marts' files, read by plain DuckDB.

`make test` publishes one fleet, `make proofs` two more.
"""

import json
import shutil

import duckdb
import pytest

from fleetlake.dashboard.panels import panel_at
from fleetlake.dashboard.web_app import create_dashboard
from tests.dashboard.asking import ask, rows_of
from tests.dashboard.world import World

MORE = [pytest.param(seed, marks=pytest.mark.proof) for seed in (2, 3)]


@pytest.fixture(scope="module", params=[1, *MORE], ids="seed {}".format)
def world(request, tmp_path_factory):
    made = World(tmp_path_factory.mktemp("numbers"))
    made.publish(seed=request.param)
    return made


@pytest.fixture(scope="module")
def app(world):
    return create_dashboard(world.published)


def test_the_cards_count_what_the_marts_hold(app, world):
    [shown] = rows_of(ask(app, "/api/now/summary"))

    [expected] = world.sql(
        "select count(*), sum((connection_state = 'online')::int),"
        " sum((connection_state = 'offline')::int),"
        " (select count(*) from failover_now where unknown_since_at is null), "
        " (select count(*) from battery_risk where risk = 'high'),"
        " (select count(*) from location_latest where age_s < 86400),"
        " sum(is_behind_on_firmware::int) from device_inventory"
    )
    assert tuple(shown.values()) == expected


def test_causes_are_counted_over_the_episodes_of_the_chosen_time_and_carrier(app, world):
    given = {"from": "2026-11-13", "to": "2026-11-18T06:00:00+02:00", "carrier": "Telmira"}

    shown = rows_of(ask(app, "/api/failover/causes", given))

    episodes = world.sql(
        "select cause_reason, cause_type, duration_s from failover_episodes"
        " where to_carrier = 'Telmira' and started_at >= '2026-11-13 00:00:00Z'"
        " and started_at < '2026-11-18 04:00:00Z'"
    )
    found = {}
    for reason, kind, seconds in episodes:
        found.setdefault((reason or "no alert says why", kind), []).append(seconds)
    assert {(row["cause"], row["cause_type"]): row["failovers"] for row in shown} == {
        cause: len(lengths) for cause, lengths in found.items()
    }
    assert {(row["cause"], row["cause_type"]): row["failover_s"] for row in shown} == {
        cause: pytest.approx(sum(lengths)) for cause, lengths in found.items()
    }


def test_an_episode_that_reaches_into_the_chosen_time_is_shown(app, world):
    [(episode, started, ended)] = world.sql(
        "select router_id, started_at::varchar, ended_at::varchar from failover_episodes"
        " where ended_at is not null order by started_at limit 1"
    )
    inside = str(duckdb.execute("select ?::timestamptz - interval 1 minute", [ended]).fetchone()[0])

    shown = rows_of(ask(app, "/api/failover/episodes", {"from": inside, "router": episode}))

    begun = duckdb.execute("select epoch_ms(?::timestamptz)", [started]).fetchone()[0]
    assert begun in {row["started_at"] for row in shown}


def test_daily_usage_equals_the_sum_of_the_samples_of_each_carrier_on_complete_days(app, world):
    shown = rows_of(ask(app, "/api/usage/daily", {"last": "all"}))

    carriers = world.sql("select net_device_id, coalesce(carrier, 'wired') from data_usage_month")
    samples = world.sql(
        "select net_device_id, usage_date, total_bytes from data_usage_daily "
        "where usage_date < (select max(usage_date) from data_usage_daily)"
    )
    expected = {}
    for line, day, size in samples:
        for carrier in [carrier for of_line, carrier in carriers if of_line == line]:
            expected[str(day), carrier] = expected.get((str(day), carrier), 0) + size
    assert expected
    assert {(row["day"], row["carrier"]): row["used_bytes"] for row in shown} == expected


def test_the_last_days_are_counted_back_from_the_newest_event(app, world):
    shown = rows_of(ask(app, "/api/failover/causes", {"last": "7d"}))

    [(expected,)] = world.sql(
        "select count(*) from failover_episodes where started_at >= '2026-11-13 11:55:00Z'"
    )
    assert sum(row["failovers"] for row in shown) == expected > 0


def test_a_type_of_alert_leads_to_its_single_alerts_and_their_words(app, world):
    page = ask(app, "/alerts", {"type": "reboot"}).text
    rows = rows_of(ask(app, "/api/alerts/single", {"type": "reboot", "last": "all"}))

    expected = world.sql(
        "select router_id, description, repeats from alert_log"
        " where alert_type = 'reboot' and not is_repeat"
    )
    found = [(row["router_id"], row["what_it_says"], row["repeats"]) for row in rows]
    assert sorted(found) == sorted(expected) != []
    assert "/alerts?type={alert_type}#single" in page
    assert 'name="type"' in page


def test_an_episode_has_its_alerts_and_who_changed_the_router_in_the_hour_before(tmp_path):
    world = World(tmp_path)
    world.publish(rows=200)
    app, shown = create_dashboard(world.published), {}
    episodes = [
        one for (one,) in world.sql("select episode_id from failover_episodes order by all")
    ]
    asked = episodes[::4]
    for episode in asked:
        for panel in ("alerting", "changes", "together"):
            rows = rows_of(ask(app, f"/api/episode/{panel}", {"episode": episode}))
            shown |= {(episode, panel): len(rows)} if rows else {}

    hour = "between e.started_at - interval 1 hour and e.started_at"
    length = "+ to_milliseconds((e.duration_s * 1000)::bigint)"
    counted = "select episode_id, count(*) from failover_episodes e join"
    expected = {
        "alerting": f"{counted} alert_log o using (router_id) where detected_at {hour} {length}"
        " + interval 10 minute and not is_repeat group by all",
        "changes": f"{counted} (select object_id, acted_at from change_log where object_type ="
        " 'router' union all select router_id::varchar, valid_from from device_history where"
        " version_number > 1) o on o.object_id = e.router_id::varchar"
        f" where acted_at {hour} {length} group by all",
        "together": "select e.episode_id, count(*) from failover_episodes e, failover_episodes o"
        " where o.router_id <> e.router_id"
        " and abs(date_diff('ms', o.started_at, e.started_at)) <= 600000 group by all",
    }
    counts = {(e, panel): n for panel, sql in expected.items() for e, n in world.sql(sql)}
    found = {(e, panel): n for (e, panel), n in counts.items() if e in asked}
    assert {panel for _, panel in found} == {*expected}
    assert shown == found


def test_the_page_of_an_episode_without_one_is_the_page_failover(app):
    assert ask(app, "/episode", {"episode": "x"}).status_code == 200
    assert ask(app, "/episode", {"last": "7d"}).headers["location"] == "/failover?last=7d"
    menu = ask(app, "/device", {"router": "1"}).text.partition("</nav>")[0]
    assert "/failover?router=1" in menu
    assert "/devices?" not in menu


def test_a_position_at_a_moment_is_the_last_good_fix_of_the_hour_before(app, world):
    moment = "2026-11-18 12:00:00Z"
    fixes = world.sql(
        "select router_id, epoch_ms(fixed_at), latitude_deg from location_track_points p"
        " where quality = 'good' and router_id in (select router_id from device_inventory)"
        " order by fixed_at"
    )
    at = fixes[len(fixes) // 2][1] + 60_000
    expected = {
        router: latitude for router, fixed, latitude in fixes if at - 3_600_000 < fixed <= at
    }
    [(moment,)] = duckdb.execute("select make_timestamptz(?)::varchar", [at * 1000]).fetchall()

    shown = rows_of(ask(app, "/api/map/replay", {"at": moment}))

    assert {row["router_id"]: row["latitude_deg"] for row in shown} == expected
    assert expected


def test_a_thinned_track_keeps_its_first_and_its_last_fix(app, world):
    [(router, day, fixes)] = world.sql(
        "select router_id, fix_date, count(*) from location_track_points where quality = 'good'"
        " group by all order by count(*) desc, router_id limit 1"
    )
    given = {"router": router, "day": day}

    whole = rows_of(ask(app, "/api/map/track", given))
    thin = rows_of(ask(app, "/api/map/track", {**given, "zoom": 0}))
    coarse = rows_of(ask(app, "/api/map/track", {**given, "zoom": -9}))

    assert len(whole) == fixes > 1
    assert [coarse[0], coarse[-1]] == [whole[0], whole[-1]]
    assert len(coarse) <= len(thin) <= len(whole)
    assert len(coarse) == 2


def test_the_tracks_of_several_routers_are_those_of_each(app, world):
    [(day,)] = world.sql(
        "select fix_date from location_track_points where quality = 'good'"
        " group by fix_date order by count(distinct router_id) desc, fix_date limit 1"
    )
    routers = [
        router
        for (router,) in world.sql(
            "select distinct router_id from location_track_points"
            " where quality = 'good' and fix_date = ? order by router_id limit 3",
            day,
        )
    ]

    def fixes(**given):
        shown = rows_of(ask(app, "/api/map/track", {"day": day, **given}))
        return [(row["router_id"], row["fixed_at"]) for row in shown]

    both = fixes(vehicles=",".join(map(str, routers)))

    assert both == [fix for router in routers for fix in fixes(vehicles=router)]
    assert both == [fix for router in routers for fix in fixes(router=router)]
    assert len({router for router, _ in both}) == len(routers) > 1
    assert fixes() == []


@pytest.mark.parametrize("vehicles", ["1,", "one", "-1", ",".join(map(str, range(13)))])
def test_vehicles_that_cannot_be_read_are_refused(app, vehicles):
    answer = ask(app, "/api/map/track", {"day": "2026-11-18", "vehicles": vehicles})

    assert answer.status_code == 400
    assert "'vehicles' cannot be read" in answer.json()["what"]


def test_calls_are_summed_over_the_streams_of_a_day(app):
    rows = rows_of(ask(app, "/api/data/calls"))

    assert [(row["call_date"], row["calls"], row["refusals"]) for row in rows] == [
        ("2026-11-10", 14, 0),
        ("2026-11-11", 16, 2),
        ("2026-11-12", 18, 4),
    ]
    assert [(row["budget_calls"], row["budget_used_pct"]) for row in rows] == [
        (40, 35.0),
        (40, 40.0),
        (40, 45.0),
    ]


@pytest.mark.parametrize(
    ("budgets", "shown"),
    [
        ([], None),
        ([("default", 0)], None),
        ([("default", 40), ("west", 0)], None),
        ([("default", 40), ("west", 60)], 100),
    ],
)
def test_a_budget_is_shown_only_if_each_account_has_one(world, tmp_path, budgets, shown):
    folder = tmp_path / "published"
    shutil.copytree(world.published, folder)
    described = json.loads((folder / "snapshot.json").read_text())
    names = ("account_profile", "calls_per_day")
    described["budgets"] = [dict(zip(names, budget, strict=True)) for budget in budgets]
    (folder / "snapshot.json").write_text(json.dumps(described))
    app = create_dashboard(folder)

    calls = rows_of(ask(app, "/api/data/calls"))
    [summary] = rows_of(ask(app, "/api/data/summary"))

    assert {row["budget_calls"] for row in calls} == {shown}
    assert (summary["calls_on_newest_day"], summary["budget_calls"]) == (18, shown)


def test_the_drives_of_a_report_are_the_longest_days_with_their_good_fixes(app, world):
    shown = rows_of(ask(app, "/api/map/drives", {"last": "all"}))

    days = {}
    for router, day, km in world.sql("select router_id, trip_date, distance_km from trips"):
        days[router, day] = days.get((router, day), 0) + km
    longest = {}
    for router, day in sorted(days, key=lambda one: (-days[one], one[1])):
        longest.setdefault(router, str(day))
    fixes = world.sql(
        "select router_id, fix_date::varchar, epoch_ms(fixed_at) from location_track_points"
        " where quality = 'good'"
    )
    expected = {(router, at) for router, day, at in fixes if longest.get(router) == day}
    assert {(row["router_id"], row["fixed_at"]) for row in shown} == expected
    assert expected


def test_the_drives_of_a_report_are_bounded_and_keep_their_ends():
    with duckdb.connect() as connection:
        connection.execute(
            "create view trips as select i as router_id, date '2026-11-18' as trip_date,"
            " i as distance_km, i as trip_id from range(40) t(i);"
            "create view device_inventory as select i as router_id, 'r' as router_name,"
            " 1 as account_id, 2 as group_id, 'Red' as carrier from range(40) t(i);"
            "create view location_track_points as select i // 3000 as router_id,"
            " date '2026-11-18' as fix_date, i as fix_id, 'good' as quality, i % 3000 as fixed_at,"
            " 1.0 as latitude_deg, 2.0 as longitude_deg, 3.0 as speed_kmh from range(120000) t(i)"
        )
        panel = panel_at("map", "drives")
        sql, given = panel.statement({}, rows=panel.limit + 1)
        rows = connection.execute(sql, given).fetchall()

    assert len(rows) <= panel.limit
    times = {
        router: [row[5] for row in rows if row[0] == router] for router in {r[0] for r in rows}
    }
    assert sorted(times) == [*range(28, 40)]
    assert {(at[0], at[-1]) for at in times.values()} == {(0, 2999)}
    assert {len(at) for at in times.values()} <= {*range(370, 403)}


def test_flapping_links_are_the_flapping_groups_of_the_last_week(app, world):
    shown = rows_of(ask(app, "/api/failover/flapping"))

    [(newest,)] = world.sql("select max(newest_event_at)::varchar from pipeline_freshness")
    episodes = world.sql(
        "select router_id, flap_group_id, duration_s from failover_episodes"
        " where is_flapping and started_at > ?::timestamptz - interval 7 day",
        newest,
    )
    expected = {}
    for router, group, seconds in episodes:
        expected.setdefault((router, group), []).append(seconds)
    assert {(row["router_id"], row["flap_group_id"]): row["episodes"] for row in shown} == {
        group: len(lengths) for group, lengths in expected.items()
    }
    assert sum(row["total_s"] for row in shown) == pytest.approx(sum(map(sum, expected.values())))
    assert expected


@pytest.mark.parametrize("time", [{"last": "all"}, {"from": "2026-11-15", "to": "2026-11-16"}])
def test_a_routers_cost_of_a_month_is_the_sum_of_all_its_episodes(app, world, time):
    shown = rows_of(ask(app, "/api/failover/routers", {**time, "carrier": "Telmira"}))

    expected = {}
    for month, router, cost in world.sql(
        "select strftime(started_at, '%Y-%m-01'), router_id, cost from failover_episodes"
        " where to_carrier = 'Telmira'"
    ):
        expected[month, router] = expected.get((month, router), 0) + (cost or 0)
    assert {(row["month"], row["router_id"]): row["failover_cost"] for row in shown} == {
        month: pytest.approx(cost) for month, cost in expected.items()
    }
    assert expected


def test_the_days_of_a_trend_are_those_of_the_marts(app, world):
    shown = rows_of(ask(app, "/api/now/trends"))

    [(newest,)] = world.sql("select max(newest_event_at)::date from pipeline_freshness")
    marts = {
        "failovers": ("failover_episodes", "started_at", "1"),
        "backup_s": ("wan_availability_daily", "wan_date", "backup_s"),
        "device_offline_s": ("device_availability_daily", "available_date", "offline_s"),
        "alerts": ("alert_volume", "alert_date", "alerts"),
    }
    for name, (mart, at, column) in marts.items():
        days = dict(world.sql(f"select {at}::date::varchar, sum({column}) from {mart} group by 1"))
        assert {row["day"]: row[name] for row in shown} == pytest.approx(
            {row["day"]: float(days.get(row["day"], 0)) for row in shown}
        )
        assert any(row[name] for row in shown)
    assert [row["day"] for row in shown if row["is_unfinished"]] == [newest.isoformat()]


def test_what_happened_to_a_device_is_in_one_order_whatever_mart_knows_it(app, world):
    given = {"router": 1_000_001, "last": "all"}

    rows = rows_of(ask(app, "/api/device/happened", given))

    of = "router_id = 1000001"
    wanted = world.sql(
        f"select 'failover', started_at from failover_episodes where {of} union all"
        f" select 'record', valid_from from device_history where {of} union all select"
        " 'configuration', acted_at from change_log where object_type = 'router'"
        " and object_id = '1000001'"
    )
    found = [(row["what"], row["happened_at"]) for row in rows]
    assert sorted(found) == sorted((what, int(at.timestamp() * 1000)) for what, at in wanted)
    assert {what for what, _ in found} == {"failover", "record", "configuration"}
    times = [at for _, at in found]
    assert times == sorted(times, reverse=True)
