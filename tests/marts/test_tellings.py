"""Failovers read from alerts alone are those that happened, however alerts tell of them."""

from datetime import timedelta

import polars as pl
import pytest

from fleetlake.lake import open_lake
from fleetlake.loading.ingest import ingest, raise_worst
from fleetlake.marts import build_marts
from fleetsim.world.plans import TELLINGS, Telling
from tests.support.mart_truth_fleet import BORN, born, compare

pytestmark = [pytest.mark.proof, pytest.mark.xdist_group("marts")]

LIFE = timedelta(days=9)
LOADED = ("routers", "net_devices", "alerts")
STAMP_S = 1.001
"""Alerts are stamped to the second."""
STANDBY_S = 5 + STAMP_S
"""A backup stands by five seconds after the primary WAN is back."""

EPISODES = """
select t.*, e.source, e.is_end_known, e.to_interface as found_to, e.started_at as found_at,
       epoch(e.ended_at) - epoch(t.ended_at) as end_s
from truth as t full join (
    select * from marts.failover_episodes where router_id in (select router_id from truth)
) as e
on e.router_id = t.router_id
and abs(epoch(e.started_at) - epoch(t.started_at)) <= 1.001
where t.ended_at is not null or t.router_id is null
"""


@pytest.fixture(scope="module")
def episodes(tmp_path_factory) -> pl.DataFrame:
    """Return the failovers of a fleet beside those that the mart reads from its alerts.

    The alerts of routers that left the service are gone, and some clocks are wrong.
    """
    lake = tmp_path_factory.mktemp("tellings") / "lake"
    fleet = born(routers=60, seed=11, lake=lake, tellings=True)
    fleet.advance_to(BORN + LIFE)
    raise_worst(ingest(fleet.settings, [*LOADED], transport=fleet.transport))
    build_marts(lake, select="+failover_episodes")
    drifting = fleet.truth("reporting").filter(pl.col("has_drifting_clock"))["router_id"]
    left = fleet.truth("registrations")["replaces_router_id"]
    happened = fleet.truth("failover_episodes").filter(
        ~pl.col("router_id").is_in(drifting.implode()), ~pl.col("router_id").is_in(left.implode())
    )
    with open_lake(lake, read_only=True) as opened:
        pairs = compare(opened, happened, EPISODES, fleet.now())
    assert set(pairs["source"].drop_nulls()) == {"alerts"}
    return pairs


def test_no_failover_is_invented(episodes):
    assert episodes.filter(pl.col("router_id").is_null()).to_dicts() == []


@pytest.mark.parametrize("telling", TELLINGS, ids=lambda telling: telling.name)
def test_failovers_are_those_that_happened_and_an_end_that_was_not_told_is_not_known(
    episodes, telling: Telling
):
    those = episodes.filter(pl.col("telling") == telling.name)
    is_told = telling.says_back or telling.says_standby

    assert those.height >= 8
    assert those["is_second"].any() >= telling.backup_fails
    assert those.filter(pl.col("found_at").is_null()).to_dicts() == []
    assert those.filter(pl.col("found_to") != pl.col("to_uid")).to_dicts() == []
    assert those["is_end_known"].to_list() == [is_told] * those.height
    latest = STAMP_S if telling.says_back else STANDBY_S
    off = those.filter(~pl.col("end_s").is_between(-STAMP_S, latest))
    assert off.to_dicts() == [] or not is_told
    assert (those["end_s"] < STAMP_S).all() or is_told
