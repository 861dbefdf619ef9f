"""Every panel of every page: its rows, its filters, and where its numbers come from."""

import io
import re

import duckdb
import polars as pl
import pytest

from fleetlake.dashboard.column_sources import column_types, origin_of
from fleetlake.dashboard.panels import BY_DEVICE, dashboard_pages
from fleetlake.dashboard.parameters import PARAMETERS
from fleetlake.marts.catalogue import marts
from tests.dashboard.asking import ask, rows_of
from tests.dashboard.world import NOW, ROUTERS, account_of, group_of

PANELS = [panel for page in dashboard_pages().values() for panel in page.panels.values()]
FILTERED = [(panel, name) for panel in PANELS for name in panel.filters]
NEEDED = {"router": 1_000_001, "day": "2026-11-18", "at": "2026-11-18T12:00:00Z"}
NOBODY = {
    "account": 9,
    "group": 9,
    "router": 9,
    "carrier": "nobody",
    "search": "no such name",
    "from": "2030-01-01",
    "to": "2001-01-01",
}
MEANING = {"account": account_of, "group": group_of, "router": int}


def named(value):
    return value.path if hasattr(value, "path") else str(value)


def needed(panel):
    return {name: NEEDED[name] for name in panel.needs}


@pytest.mark.parametrize("panel", PANELS, ids=named)
def test_a_panel_answers_and_says_of_each_column_where_it_comes_from(app, panel):
    answer = ask(app, panel.path, {**needed(panel), "last": "all"})

    assert answer.status_code == 200, answer.text
    document = answer.json()
    if all(map(column_types, panel.marts)):  # a mart of a later release has no catalogue yet
        for column in document["columns"]:
            mart, _, name = column["origin"].split(",")[0].partition(".")
            assert mart in panel.marts, column
            assert name in column_types(mart), column
            assert column["meaning"], column


@pytest.mark.parametrize("panel", PANELS, ids=named)
def test_declared_origins_and_times_exist_in_the_marts(panel):
    for declared in [*panel.of.values(), *filter(None, [panel.since])]:
        mart, _, column = declared.split(",")[0].partition(".")
        assert column in column_types(mart) or not column_types(mart), declared
    assert set(panel.needs) | set(panel.filters) <= set(PARAMETERS)
    assert origin_of(panel, "no such column") == ("", "")


@pytest.mark.parametrize("panel", PANELS, ids=named)
def test_a_panel_names_every_mart_that_its_query_reads(panel):
    names = "|".join(mart["name"] for mart in marts())
    read = set(re.findall(rf"\b(?:from|join)\s+({names})\b", panel.sql))

    assert read <= set(panel.marts)


@pytest.mark.parametrize(("panel", "name"), FILTERED, ids=named)
def test_a_filter_that_nothing_matches_leaves_nothing(app, panel, name):
    given = {"last": "all", **needed(panel), name: NOBODY[name]}

    rows = rows_of(ask(app, panel.path, given))

    counts = [value for row in rows for value in row.values()]
    assert not rows or (panel.kind == "cards" and set(counts) == {0})


@pytest.mark.parametrize(
    ("panel", "name"), [(p, n) for p, n in FILTERED if n in MEANING and not p.needs], ids=named
)
def test_a_filter_on_devices_keeps_exactly_the_rows_of_those_devices(app, panel, name):
    every = rows_of(ask(app, panel.path, {"last": "all"}))
    if not every or "router_id" not in every[0]:
        return
    [device, *_] = [row["router_id"] for row in every if row["router_id"] in ROUTERS]
    value = MEANING[name](device)

    kept = rows_of(ask(app, panel.path, {"last": "all", name: value}))

    def matches(row):
        if row["router_id"] is None:
            return False
        is_known = row["router_id"] in ROUTERS or panel.filters[name] != BY_DEVICE
        return is_known and MEANING[name](row["router_id"]) == value

    assert len(every) < panel.limit
    ids = sorted(row["router_id"] for row in kept)
    assert ids == sorted(row["router_id"] for row in every if matches(row))
    assert ids


@pytest.mark.parametrize("panel", [panel for panel in PANELS if panel.needs], ids=named)
def test_a_panel_that_needs_a_choice_says_so(app, panel):
    answer = ask(app, panel.path, {"last": "all"})

    assert answer.status_code == 400
    assert answer.json()["what"].startswith("Choose a ")


@pytest.mark.parametrize("panel", PANELS, ids=named)
def test_the_exports_of_a_panel_have_the_same_rows_as_the_page(app, panel):
    given = {**needed(panel), "last": "all"}

    shown = rows_of(ask(app, panel.path, given))
    packed = ask(app, f"{panel.path}.parquet", given)
    written = ask(app, f"{panel.path}.csv", given)

    parquet = pl.read_parquet(io.BytesIO(packed.content))
    csv = pl.read_csv(io.BytesIO(written.content), infer_schema=False)
    assert parquet.height == csv.height >= len(shown)
    assert parquet.columns == csv.columns
    assert not shown or parquet.columns == list(shown[0])
    assert f"{panel.page}-{panel.name}-" in packed.headers["content-disposition"]


def test_the_cards_count_what_the_marts_hold(app, world):
    [shown] = rows_of(ask(app, "/api/now/summary"))

    [expected] = world.sql(
        "select count(*), sum((connection_state = 'online')::int),"
        " sum((connection_state = 'offline')::int),"
        " (select count(*) from failover_now), "
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
    assert {(row["cause"], row["cause_type"]): row["episodes"] for row in shown} == {
        cause: len(lengths) for cause, lengths in found.items()
    }
    assert {(row["cause"], row["cause_type"]): row["total_s"] for row in shown} == {
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


def test_daily_usage_equals_the_sum_of_the_samples_of_each_carrier(app, world):
    shown = rows_of(ask(app, "/api/usage/daily", {"last": "all"}))

    carriers = world.sql("select net_device_id, coalesce(carrier, 'wired') from data_usage_month")
    samples = world.sql("select net_device_id, usage_date, total_bytes from data_usage_daily")
    expected = {}
    for line, day, size in samples:
        for carrier in [carrier for of_line, carrier in carriers if of_line == line]:
            expected[str(day), carrier] = expected.get((str(day), carrier), 0) + size
    assert expected
    assert {(row["usage_date"], row["carrier"]): row["total_bytes"] for row in shown} == expected


def test_the_last_days_are_counted_back_from_the_newest_event(app, world):
    shown = rows_of(ask(app, "/api/alerts/rows", {"last": "7d"}))

    [(expected,)] = world.sql(
        "select count(*) from alert_volume where alert_date >= date '2026-11-13'"
    )
    assert len(shown) == expected > 0


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


def test_the_range_of_a_filter_is_the_one_of_the_address(app):
    told = ask(app, "/api/failover/cost", {"account": 10, "last": "30d"}).json()

    assert told["ignored"] == ["account"]
    assert told["as_of"] == int(NOW.timestamp() - 300) * 1000
