"""The mart `attention` against the simulated world: who needs a person at one moment, and why."""

from datetime import timedelta
from types import SimpleNamespace

import polars as pl
import pytest

from fleetlake.lake import open_lake
from fleetlake.lake.gaps import acknowledge_gaps
from fleetlake.loading.ingest import ingest, raise_worst
from fleetlake.marts import build_marts
from tests.marts.mart_truth_attention import is_right_of_attention
from tests.support.mart_truth_fleet import BORN, born

# They share what makes a run of dbt cheap.
pytestmark = [pytest.mark.proof, pytest.mark.xdist_group("marts")]

DAYS = timedelta(days=3)
LOADED = ("accounts", "groups", "routers", "net_devices", "failovers", "alerts", "batteries")
LOADED += ("net_device_usage_samples", "historical_locations")
UNLOCATED = timedelta(hours=30)


def moment_of_trouble(fleet):
    """Return an instant at which a router is offline and another on a backup."""
    offline = fleet.truth("outages").filter(pl.col("kind") == "offline").drop_nulls("ended_at")
    on_backup = fleet.truth("failover_episodes").drop_nulls("ended_at")
    spans = pl.concat([offline, on_backup], how="diagonal")["started_at", "ended_at"].rows()
    long = [(start, end) for start, end in spans if end - start > timedelta(minutes=20)]
    middles = [start + (end - start) / 2 for start, end in long if start > BORN + DAYS / 2]

    def lasting(spans, at):
        return spans.filter(pl.col("started_at") < at, pl.col("ended_at") > at).height

    return max(middles, key=lambda at: min(lasting(offline, at), lasting(on_backup, at)))


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    """Load a fleet at such a moment, without the last fixes of one vehicle, and build."""
    lake = tmp_path_factory.mktemp("attention") / "lake"
    scout, fleet = (born(routers=60, seed=14, lake=lake, flapping=True) for _ in range(2))
    scout.advance_to(BORN + DAYS)
    fleet.advance_to(moment_of_trouble(scout))
    raise_worst(ingest(fleet.settings, LOADED, transport=fleet.transport))
    with open_lake(lake) as opened:
        [(vehicle,)] = opened.rows("select min(router_id) from raw.historical_locations")
        opened.execute(
            f"delete from raw.historical_locations where router_id = {vehicle} and created_at > ?",
            [fleet.now() - UNLOCATED],
        )
    build_marts(lake, select="+attention")
    return SimpleNamespace(fleet=fleet, lake=lake, vehicle=vehicle)


def attention(lake, reason):
    with open_lake(lake, read_only=True) as opened:
        return opened.execute(f"select * from marts.attention where reason = '{reason}'").pl()


def test_the_mart_names_exactly_the_things_with_something_the_matter(fleet):
    with open_lake(fleet.lake, read_only=True) as opened:
        assert is_right_of_attention(fleet.fleet, opened, poll=DAYS)

    for reason in ("on_backup", "offline", "flapping"):
        assert attention(fleet.lake, reason).height, reason


def test_a_vehicle_whose_fixes_stop_is_not_located_since_its_last_one(fleet):
    fixes = fleet.fleet.truth("historical_locations", device=str(fleet.vehicle))
    until = fleet.fleet.now() - UNLOCATED
    last = fixes.filter(pl.col("created_at") <= until)["created_at"].max()

    found = attention(fleet.lake, "not_located")

    assert found["router_id"].to_list() == [fleet.vehicle]
    assert abs(found["since_at"][0] - last) < timedelta(seconds=1)


@pytest.mark.release
def test_records_that_were_lost_need_attention_until_someone_acknowledges_them(tmp_path):
    lake = tmp_path / "lake"
    fleet = born(routers=3, seed=11, lake=lake)

    def load():
        raise_worst(ingest(fleet.settings, ["activity_logs"], transport=fleet.transport))
        build_marts(lake, select="+attention")
        return attention(lake, "data_gap")

    fleet.advance_to(BORN + DAYS)
    assert load().is_empty()
    fleet.advance_to(BORN + DAYS + timedelta(days=31))
    found = load()
    with open_lake(lake) as opened:
        acknowledge_gaps(opened)

    assert found["endpoint"].to_list() == ["activity_logs"]
    # Its newest records were not settled yet, and so not proven complete.
    assert timedelta(0) <= BORN + DAYS - found["since_at"][0] < timedelta(hours=1)
    assert load().is_empty()
