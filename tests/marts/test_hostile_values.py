"""Numbers and times that cannot be true: no build ends for them, and no mart grows by them."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from fleetlake.endpoints import ENDPOINTS
from fleetlake.endpoints.columns import Kind
from fleetlake.lake import open_lake
from fleetlake.lake.evolution.promote import retype
from fleetlake.marts import build_marts
from fleetlake.marts.catalogue import marts

pytestmark = pytest.mark.xdist_group("marts")  # they share what makes a run of dbt cheap

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
FAR, LONG_AGO = datetime(9999, 12, 31, tzinfo=UTC), datetime(1970, 1, 1, tzinfo=UTC)
LARGEST = 2**63 - 1

MAY_GROW = {
    "attention": 40,  # each device has a row for each reason, such as 2^40 bytes against its cap
    "battery_discharges": 4,  # a row for each discharge: a negative level looks like one
    "failover_cost_monthly": 4,  # a row for each interface that a failover used in a month
    "failover_daily": 11,  # a row for each day of a failover, of those in failover_episodes
    "failover_episodes": 11,  # the alert of a failover whose record is elsewhere counts by itself
    "failover_now": 11,  # a failover of which nothing says when it ended
}
"""The most rows that hostile values add to a mart: none to a mart that is not here."""


def test_the_dates_of_every_mart_with_days_are_tested():
    untested = [
        mart["name"]
        for mart in marts()
        if mart["config"]["meta"].get("date")
        and not any(
            "within_evidence" in test or "'date':" in str(test) for test in mart["data_tests"]
        )
    ]

    assert untested == []


def failover(uuid: str, **members: object) -> dict[str, object]:
    times = {"started_at": NOON, "ended_at": NOON + timedelta(minutes=5), "updated_at": NOON}
    return {"uuid": uuid, "router_id": 1, "data_usage": 1e6} | times | members


def sample(at: datetime, **members: object) -> dict[str, object]:
    values = {"bytes_in": 1000, "bytes_out": 10, "period": 900}
    device = {"net_device_id": 7, "created_at_timeuuid": str(at), "created_at": at}
    return device | values | members


@pytest.mark.proof
def test_no_number_stops_a_build_and_no_time_multiplies_a_mart(lake_path, add):
    until = NOON + timedelta(days=2)
    add(lake_path, "routers", {"id": 1, "device_type": "router", "created_at": NOON})
    add(
        lake_path,
        "failovers",
        failover("usual"),
        failover("large", data_usage=1e300),
        failover("far", ended_at=FAR),
        failover("early", started_at=LONG_AGO),
    )
    add(
        lake_path,
        "net_device_usage_samples",
        sample(NOON),
        sample(until, bytes_in=LARGEST, bytes_out=LARGEST, period=2**40),
    )
    with open_lake(lake_path) as lake:
        lake.execute("insert into meta.reads (read_until) values (?)", [until])

    select = "+failover_daily +failover_cost_monthly +data_usage_daily +wan_availability_daily"
    result = build_marts(lake_path, select=select)

    with open_lake(lake_path, read_only=True) as lake:
        daily = lake.rows("select failover_date::varchar, episodes from marts.failover_daily")
        episodes = lake.rows(
            "select episode_id, is_bounded, backup_bytes from marts.failover_episodes order by 1"
        )
        usage = lake.rows("select odd_samples, total_bytes from marts.data_usage_daily order by 1")
        [(days,)] = lake.rows("select count(*) from marts.wan_availability_daily")
    assert sorted(daily) == [("2026-06-01", 4), ("2026-06-02", 1), ("2026-06-03", 1)]
    assert episodes == [
        ("early", True, 1_000_000),
        ("far", True, 1_000_000),
        ("large", False, None),
        ("usual", False, 1_000_000),
    ]
    assert usage == [(0, 1010), (1, None)]
    assert days == 3
    found = {test.name: test.rows[0] for test in result.warnings}
    assert [row for row in found.values() if row.get("usage_bytes") == 1e300]  # names the record
    assert [row for row in found.values() if row.get("odd_samples") == 1]
    assert [row for row in found.values() if row.get("is_bounded")]


@pytest.mark.proof
def test_an_alert_with_a_far_time_counts_on_the_day_of_its_creation(lake_path, add):
    usual = {"type": "reboot", "router_id": 1, "created_at": NOON}
    times = {"first": NOON, "far": FAR, "early": LONG_AGO, "ancient": LONG_AGO.replace(year=1)}
    alerts = [
        usual | {"created_at_timeuuid": name, "detected_at": at} for name, at in times.items()
    ]
    add(lake_path, "alerts", *alerts)

    result = build_marts(lake_path, select="+alert_volume")

    with open_lake(lake_path, read_only=True) as lake:
        found = lake.rows("select alert_date::varchar, alerts, odd_alerts from marts.alert_volume")
    assert found == [("2026-06-01", 4, 3)]
    assert [test.rows[0]["odd_alerts"] for test in result.warnings] == [3]


@pytest.mark.proof
def test_marts_build_over_retyped_columns(make_sim):
    sim = make_sim(routers=2, days=1)
    names = ("net_device_usage_samples", "batteries", "net_devices", "routers")
    sim.ingest(*names)
    with open_lake(sim.settings().lake) as lake:
        retype(lake, ENDPOINTS["net_device_usage_samples"], "bytes_in", Kind.REAL)
        retype(lake, ENDPOINTS["batteries"], "rsoc", Kind.TEXT)
    sim.advance(3600)
    outcomes = sim.ingest(*names)
    build_marts(sim.settings().lake, select="+data_usage_daily +battery_health")

    assert [outcome.error for outcome in outcomes if outcome.error] == []
    with open_lake(sim.settings().lake, read_only=True) as lake:
        [(raw, staged)] = lake.rows(
            "select (select sum(bytes_in) from raw.net_device_usage_samples), "
            "(select sum(in_bytes) from marts.data_usage_daily)"
        )
        assert raw == staged > 0


@pytest.mark.release
@pytest.mark.usefixtures("real_dbt")
def test_a_fleet_with_hostile_values_builds_in_twice_the_time_of_a_clean_one(tmp_path, make_lake):
    lakes = {
        name: make_lake(tmp_path / str(name), scenario=name) for name in (None, "hostile-values")
    }

    seconds = {
        name: min(cpu_seconds_of_build(lake) for _ in range(2)) for name, lake in lakes.items()
    }

    usual, found = [rows_of_marts(lake) for lake in lakes.values()]
    assert usual.keys() == found.keys() == {mart["name"] for mart in marts()}
    too_many = {
        name: (usual[name], rows)
        for name, rows in found.items()
        if rows > usual[name] + MAY_GROW.get(name, 0)
    }
    assert too_many == {}
    assert seconds["hostile-values"] <= 2 * seconds[None]


def cpu_seconds_of_build(lake: Path) -> float:
    """Build all marts anew; return the CPU seconds of this process and of dbt's."""
    before = os.times()
    build_marts(lake, is_full=True)
    return sum(os.times()[:4]) - sum(before[:4])


def rows_of_marts(lake_path: Path) -> dict[str, int]:
    with open_lake(lake_path, read_only=True) as lake:
        return {
            mart["name"]: lake.rows(f"select count(*) from marts.{mart['name']}")[0][0]
            for mart in marts()
        }
