"""Interfaces that move or change their name or SIM card: marts show each event as of its time."""

import shutil
from datetime import timedelta
from types import SimpleNamespace

import pytest

from fleetlake.lake import open_lake
from fleetlake.marts import build_marts

# They share what makes a run of dbt cheap. dbt's unit tests hold the rules after each change.
pytestmark = [pytest.mark.proof, pytest.mark.xdist_group("marts")]

MARTS = ("failover_episodes", "failover_daily", "data_usage_daily", "data_usage_month")
MORE = ("failover_cost_monthly", "failover_now", "wan_availability_daily")
SELECT = " ".join(f"+{mart}" for mart in MARTS)
LOADED = ("routers", "net_devices", "failovers", "alerts")
LOADED += ("net_device_usage_samples", "net_device_signal_samples")
TWIN = 987654321


def content(lake, mart):
    with open_lake(lake, read_only=True) as opened:
        return opened.rows(f"select columns(c -> c <> 'built_at') from marts.{mart} order by all")


def change(opened, net_device, instant, values):
    """Close the current version of an interface, and open one that differs."""
    changed = ", ".join(f"{text} as {name}" for name, text in values.items())
    opened.execute(
        f"create temp table next as select * replace ({changed}, ?::timestamptz as valid_from)"
        f" from raw.net_devices where id = {net_device} and valid_to is null",
        [instant],
    )
    opened.execute(
        f"update raw.net_devices set valid_to = ? where id = {net_device} and valid_to is null",
        [instant],
    )
    opened.execute("insert into raw.net_devices by name from next")
    opened.execute("drop table next")


@pytest.fixture(scope="module")
def fleet(tmp_path_factory, make_lake):
    """Build a simulated fleet's marts, change four modems on one day, and build again."""
    folder = tmp_path_factory.mktemp("moves")
    lake = make_lake(folder, *LOADED)
    with open_lake(lake) as opened:
        # Per router that failed over to a modem: the modem, and the start of the last failover.
        backups = opened.rows(
            "select d.id, any_value(d.router_id), any_value(d.uid), any_value(d.carrier),"
            " max(f.started_at)"
            " from raw.failovers as f join raw.net_devices as d"
            " on d.router_id = f.router_id and d.uid = f.current_wan_interface and d.type = 'mdm'"
            " where f.ended_at is not null"
            " group by d.id order by max(f.started_at) limit 4"
        )
        [(newest,)] = opened.rows("select max(created_at) from raw.net_device_usage_samples")
        moment = max(backup[-1] for backup in backups) + timedelta(minutes=1)
        opened.execute("update raw.net_devices set valid_from = ?", [moment - timedelta(days=30)])
    build_marts(lake, select=SELECT)
    moved, renamed, swapped, doubled = backups
    with open_lake(lake) as opened:
        opened.execute("begin")
        change(opened, moved[0], moment, {"router_id": renamed[1]})
        change(opened, renamed[0], moment, {"uid": "'mdm-renamed'"})
        change(opened, swapped[0], moment, {"carrier": "'Othercell'", "iccid": "'8901'"})
        opened.execute(
            f"insert into raw.net_devices by name select * replace ({TWIN} as id,"
            f" ?::timestamptz as valid_from) from raw.net_devices where id = {doubled[0]}",
            [moment],
        )
        opened.execute("commit")
    build_marts(lake, select=SELECT)
    assert newest > moment
    return SimpleNamespace(
        lake=lake, moved=moved, renamed=renamed, swapped=swapped, doubled=doubled, newest=newest
    )


def test_episodes_before_a_change_keep_the_interface_that_took_over(fleet):
    with open_lake(fleet.lake, read_only=True) as opened:
        for net_device, router, uid, *_ in (
            *(fleet.moved, fleet.renamed),
            *(fleet.swapped, fleet.doubled),
        ):
            found = opened.rows(
                "select distinct backup_net_device_id from marts.failover_episodes"
                f" where router_id = {router} and to_interface = '{uid}' and source = 'record'"
            )
            assert found == [(net_device,)]


def test_every_failover_record_is_one_episode(fleet):
    with open_lake(fleet.lake, read_only=True) as opened:
        assert opened.rows(
            "select count(*) from marts.failover_episodes where source = 'record'"
        ) == opened.rows("select count(*) from raw.failovers")


def test_a_month_of_usage_has_the_router_name_and_carrier_of_its_last_sample(fleet):
    with open_lake(fleet.lake, read_only=True) as opened:

        def last(net_device):
            return opened.rows(
                "select router_id, interface, carrier, cap_bytes from marts.data_usage_month"
                f" where net_device_id = {net_device} order by month_date desc limit 1"
            )

        assert last(fleet.moved[0]) == [
            (fleet.renamed[1], fleet.moved[2], fleet.moved[3], 5_000_000_000)
        ]
        assert last(fleet.renamed[0])[0][:2] == (fleet.renamed[1], "mdm-renamed")
        assert last(fleet.swapped[0])[0][2] == "Othercell"
        assert last(fleet.doubled[0])[0] == (*fleet.doubled[1:4], 5_000_000_000)


def test_no_day_has_more_seconds_than_a_day(fleet):
    with open_lake(fleet.lake, read_only=True) as opened:
        assert opened.rows("select max(backup_s) <= 86400 from marts.failover_daily") == [(True,)]


@pytest.mark.release
def test_marts_built_before_and_after_a_change_equal_those_of_one_build(fleet, tmp_path):
    steps = shutil.copytree(fleet.lake, tmp_path / "steps")
    whole = shutil.copytree(steps, tmp_path / "lake", ignore=shutil.ignore_patterns("dbt"))

    for lake in (steps, whole):
        build_marts(lake, select=" ".join(f"+{mart}" for mart in MARTS + MORE))

    for mart in MARTS + MORE:
        assert content(whole, mart) == content(steps, mart)
