"""Backups that fail during an outage, so that a router has two failovers at once."""

from collections import defaultdict
from datetime import timedelta

import pytest

from tests.simulator.sections import section
from tests.support.service import Record, Service, instant, shared, start

MOMENT = timedelta(seconds=3)


@pytest.fixture(scope="module")
def world() -> Service:
    return shared(days=20, routers=50)


@pytest.fixture(scope="module")
def pairs(world: Service) -> list[tuple[Record, Record]]:
    found = defaultdict(list)
    for episode in world.truth("failover_episodes"):
        if episode["overlaps_another"] and episode["ended_at"]:
            found[episode["router_id"], episode["ended_at"]].append(episode)
    assert found
    assert {len(both) for both in found.values()} == {2}
    return [(min(b, key=when), max(b, key=when)) for b in found.values()]


def when(episode: Record) -> str:
    return str(episode["started_at"])


def length(pair: tuple[Record, Record]) -> timedelta:
    return instant(pair[0]["ended_at"]) - instant(when(pair[0]))


@section("Simulator: truth")
def test_the_other_modem_takes_over_from_a_backup_that_fails(pairs):
    for first, second in pairs:
        assert (first["is_second"], second["is_second"]) == (False, True)
        assert first["from_interface"] == "ethernet"
        assert second["from_interface"] == first["to_interface"] != second["to_interface"]
        assert second["to_net_device_id"] != first["to_net_device_id"]
        assert instant(first["started_at"]) < instant(second["started_at"])
        assert instant(second["started_at"]) < instant(first["ended_at"])
    assert len({first["router_id"] for first, _ in pairs}) > 1


@section("Observed: Fields")
def test_overlapping_failovers_are_two_records_that_end_together(world: Service, pairs):
    records = {(r["router_id"], instant(r["started_at"])): r for r in world.truth("failovers")}

    for first, second in pairs:
        one, two = (records[e["router_id"], instant(e["started_at"])] for e in (first, second))
        assert one["uuid"] != two["uuid"]
        assert one["ended_at"] == two["ended_at"]
        assert two["previous_wan_interface"] == one["current_wan_interface"]
        assert two["current_wan_interface"] == second["to_uid"]
        assert (one["data_usage"], two["data_usage"]) == (
            first["data_usage_bytes"],
            second["data_usage_bytes"],
        )


@section("Observed: Fields")
def test_each_backup_carries_the_traffic_in_its_own_time(world: Service, pairs):
    first, second = max(
        pairs, key=lambda pair: instant(pair[0]["ended_at"]) - instant(when(pair[0]))
    )
    edges = [instant(when(first)), instant(when(second)), instant(first["ended_at"])]
    quarter = timedelta(minutes=15)
    for episode, begin, end in ((first, *edges[:2]), (second, *edges[1:])):
        device = str(episode["to_net_device_id"])
        carried, idle = 0, []
        for sample in world.truth("net_device_usage_samples", device=device):
            at, total = instant(sample["created_at"]), sample["bytes_in"] + sample["bytes_out"]
            if begin <= at - quarter and at <= end:
                carried += total
            elif edges[0] < at - quarter and at < edges[2] and not begin < at < end + quarter:
                idle.append(total)
        assert 0.4 * episode["data_usage_bytes"] < carried <= episode["data_usage_bytes"]
        assert max(idle) < 2000


@section("Events: Alert types")
def test_a_failing_backup_raises_its_loss_and_another_failover_event(world: Service, pairs):
    raised = defaultdict(list)
    for alert in world.truth("alerts"):
        if alert["router"]:
            router = int(alert["router"].rstrip("/").rpartition("/")[2])
            raised[router, alert["type"]].append(alert)

    for first, second in pairs:
        at, router = instant(when(second)), second["router_id"]
        lost = [
            a["info"]["info"]["uid"]
            for a in raised[router, "modem_wan_disconnected"]
            if at - 5 * MOMENT < instant(a["created_at"]) < at
        ]
        events = [
            a
            for a in raised[router, "failover_event"]
            if at <= instant(a["created_at"]) < at + MOMENT
        ]
        assert lost == [first["to_uid"]]
        assert len(events) == 1


@section("Simulator: truth")
def test_small_fleets_have_no_overlapping_failovers():
    small = start(days=30, routers=12)

    assert not any(e["overlaps_another"] for e in small.truth("failover_episodes"))
