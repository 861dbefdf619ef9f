"""Links that flap, on request: several failovers of a wired site that follow each other closely."""

from collections import defaultdict
from datetime import timedelta

import pytest

from tests.simulator.sections import section
from tests.support.service import Service, instant, shared

CLOSE = timedelta(minutes=15)
FLEET = {"days": 6, "routers": 24}


def groups_of(world: Service) -> list[int]:
    """Return the sizes of the groups of episodes that follow each other within minutes."""
    by_router = defaultdict(list)
    for episode in world.truth("failover_episodes"):
        ended_at = episode["ended_at"] or episode["started_at"]
        times = (instant(episode["started_at"]), instant(ended_at))
        by_router[episode["router_id"]].append(times)
    sizes = []
    for times in by_router.values():
        reached = None
        for started_at, ended_at in sorted(times):
            if reached is None or started_at - reached >= CLOSE:
                sizes.append(0)
            sizes[-1] += 1
            reached = max(reached or ended_at, ended_at)
    return sizes


@pytest.fixture(scope="module")
def flapping() -> Service:
    return shared(**FLEET, flapping=True)


@section("Simulator: truth")
def test_links_flap_on_request_only(flapping):
    assert max(groups_of(shared(**FLEET))) < 3

    assert groups_of(flapping).count(4) >= 3


@section("Simulator: truth")
def test_the_service_reports_each_failover_of_a_flapping_link(flapping):
    episodes = flapping.truth("failover_episodes")
    records = flapping.truth("failovers")

    told = {(e["router_id"], instant(e["started_at"])) for e in episodes}
    assert told == {(int(r["router_id"]), instant(r["started_at"])) for r in records}
