"""Numbers and times that cannot be true: no build ends for them, and no mart grows by them."""

from datetime import UTC, datetime, timedelta

import pytest

from fleetlake.lake import open_lake
from fleetlake.marts import build_marts
from fleetlake.marts.catalogue import marts

pytestmark = pytest.mark.xdist_group("marts")  # they share what makes a run of dbt cheap

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
FAR, LONG_AGO = datetime(9999, 12, 31, tzinfo=UTC), datetime(1970, 1, 1, tzinfo=UTC)
LARGEST = 2**63 - 1


def test_the_dates_of_every_mart_with_days_are_tested():
    untested = [
        mart["name"]
        for mart in marts()
        if mart["config"]["meta"].get("date")
        and not any("within_evidence" in test for test in mart["data_tests"])
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
