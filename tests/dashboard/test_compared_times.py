"""Two times are compared by what is known of each."""

import duckdb
import pytest

from fleetlake.dashboard.metric_panels import MetricPanel
from fleetlake.dashboard.panels import Panel


@pytest.fixture
def snapshot():
    """Return a snapshot that begins on the evening of the second, and ends on the fifth."""
    with duckdb.connect() as connection:
        connection.execute(
            "set timezone = 'UTC';"
            "create table pipeline_freshness as select '2026-11-05 01:00:00Z'::timestamptz"
            " as newest_event_at;"
            "create table device_availability_daily as select * from (values"
            " (date '2026-11-02', 21600.0), ('2026-11-02', 20000.0), ('2026-11-03', 86400.0),"
            " ('2026-11-04', 86400.0)) as t(available_date, known_s);"
            "create table snapshot_completeness as select 'alerts' as endpoint,"
            " date '2026-11-04' as complete_date, 50::double as proven_pct where false;"
            "create table device_inventory as select 1 as router_id, 'one' as router_name,"
            " 10 as account_id, 20 as group_id, 'Red' as carrier;"
            "create table alert_volume as select 'reboot' as alert_type, 1 as router_id,"
            " 10 as account_id, * from (values (date '2026-11-02', 6), ('2026-11-03', 24),"
            " ('2026-11-04', 30))"
            " as t(alert_date, alerts);"
            "create table wan_availability_daily as select 1 as router_id,"
            " date '2026-11-04' as wan_date, 80.0 as primary_s, 0.0 as backup_s, 100.0 as known_s"
        )
        yield connection


def rows(snapshot, panel, since, until):
    given = {"from": f"{since}T00:00:00Z", "to": f"{until}T00:00:00Z"}
    shown = Panel(page="mine", name="mine", title="Mine", sql="", marts=(), metrics=panel)
    sql, parameters = shown.statement(given, rows=100)
    return snapshot.sql(sql, params=parameters).pl().to_dicts()


def test_a_day_of_which_a_quarter_is_known_counts_as_a_quarter(snapshot):
    figures = MetricPanel(metrics=("alerts",), is_compared=True)

    [told] = rows(snapshot, figures, "2026-11-03", "2026-11-04")

    assert (told["value"], told["earlier"]) == (24, 6)
    assert (told["known_days"], told["known_days_before"]) == (1, 0.25)


def test_a_day_is_known_as_far_as_the_streams_of_the_figure_are_proven(snapshot):
    figures = MetricPanel(metrics=("alerts", "availability_pct"), is_compared=True)
    snapshot.execute(
        "insert into snapshot_completeness values ('alerts', '2026-11-02', 100.0),"
        " ('alerts', '2026-11-04', 50.0), ('historical_locations', '2026-11-03', 0.0)"
    )

    told = rows(snapshot, figures, "2026-11-03", "2026-11-05")

    assert [one["known_days"] for one in told] == [1.5, 1.5]
    assert [one["known_days_before"] for one in told] == [0.25, 0.25]


def test_devices_are_compared_only_where_as_much_is_known_of_both_times(snapshot):
    devices = MetricPanel(metrics=("alerts",), by=("router",), is_compared=True)

    assert rows(snapshot, devices, "2026-11-03", "2026-11-04") == []
    [told] = rows(snapshot, devices, "2026-11-04", "2026-11-05")
    assert (told["alerts"], told["earlier_alerts"], told["more_alerts"]) == (30, 24, 6)


def test_a_share_of_which_nothing_was_known_has_not_changed(snapshot):
    devices = MetricPanel(metrics=("availability_pct",), by=("router",), is_compared=True)

    assert rows(snapshot, devices, "2026-11-04", "2026-11-05") == []
