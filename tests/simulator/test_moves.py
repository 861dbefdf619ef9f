"""Modems that move, take over a name or get another SIM card, and the truth about them."""

from collections import defaultdict
from itertools import pairwise
from typing import Any

import pytest

from tests.simulator.sections import section
from tests.support.service import NOW, Record, Service, instant, last_segment, shared, start

STAYS = "stays"


@pytest.fixture(scope="module")
def world() -> Service:
    return shared(days=13, routers=50)


@pytest.fixture(scope="module")
def spans(world: Service) -> dict[int, list[Record]]:
    found = defaultdict(list)
    for fact in world.truth("interface_spans"):
        found[fact["net_device_id"]].append(fact)
    return dict(found)


def of_kind(spans: dict[int, list[Record]], kind: str) -> list[list[Record]]:
    found = [device for device in spans.values() if device[0]["kind"] == kind]
    assert found
    return found


def differing(device: list[Record], name: str) -> list[bool]:
    return [a[name] != b[name] for a, b in pairwise(device)]


def holds(span: Record, at: Any) -> bool:
    ended = instant(span["ended_at"]) if span["ended_at"] else NOW
    return instant(span["started_at"]) <= at <= ended


@section("Simulator: truth")
@pytest.mark.parametrize(
    ("kind", "changes_router", "changes_name"),
    [
        ("moves with its name", True, False),
        ("takes over the name of another", True, True),
        ("changes ports within its router", False, True),
        ("changes places with one in a drawer", True, True),
    ],
)
def test_modems_swap_places_in_pairs(spans, kind, changes_router, changes_name):
    pairs = of_kind(spans, kind)

    assert len(pairs) % 2 == 0
    for device in pairs:
        assert len(device) in (3, 4)
        assert set(differing(device, "router_id")) == {changes_router}
        assert set(differing(device, "uid")) == {changes_name}
        assert set(differing(device, "iccid")) == {False}
    routers = {tuple(sorted({str(s["router_id"]) for s in device})) for device in pairs}
    assert len(routers) == len(pairs) // 2


@section("Simulator: truth")
def test_a_new_sim_card_changes_the_carrier_of_a_modem_and_not_its_place(spans):
    swapping = [device for device in spans.values() if device[0]["swaps_sim"]]

    assert len(swapping) == 2
    for device in swapping:
        assert set(differing(device, "iccid")) == set(differing(device, "carrier")) == {True}
        assert set(differing(device, "router_id") + differing(device, "uid")) == {False}


@section("Simulator: truth")
def test_other_modems_do_not_change(spans):
    others = [d for d in of_kind(spans, STAYS) if not d[0]["swaps_sim"]]

    assert {len(device) for device in others} == {1}


@section("Simulator: truth")
def test_small_fleets_have_no_moves():
    small = start(days=13, routers=12)

    assert {(s["kind"], s["swaps_sim"]) for s in small.truth("interface_spans")} == {(STAYS, False)}


@section("Observed: Fields")
def test_interfaces_are_listed_as_they_are_now(world: Service, spans):
    listed = {int(r["id"]): r for r in world.walk("net_devices/?limit=500&type=mdm&id__gt=0")}

    assert listed.keys() == spans.keys()
    for number, device in spans.items():
        record = listed[number]
        router = None if record["router"] is None else int(last_segment(record["router"]))
        now = device[-1]
        assert (router, record["uid"], record["name"]) == (now["router_id"], now["uid"], now["uid"])
        assert (record["carrier"], record["iccid"]) == (now["carrier"], now["iccid"])
        assert record["homecarrid"] == record["carrier"]


@section("Observed: Fields")
def test_samples_of_modems_that_moved_are_what_their_routers_carried(world: Service, spans):
    moving = [device for device in spans.values() if len({s["router_id"] for s in device}) > 1]
    routers = {s["router_id"] for device in moving for s in device} - {None}
    carried = dict.fromkeys(routers, 0)
    listed = [r for r in world.truth("net_devices") if r["type"] == "mdm" or r["mode"] == "wan"]
    for record in listed:
        number, router = int(record["id"]), last_segment(record["router"] or "/0/")
        device = spans.get(number, [{"router_id": int(router), "started_at": "1970-01-01T00Z"}])
        if not routers & {s["router_id"] for s in device}:
            continue
        for sample in world.truth("net_device_usage_samples", device=str(number)):
            at = instant(sample["created_at"])
            where = [s for s in device if instant(s["started_at"]) <= at][-1]["router_id"]
            assert where is not None
            if where in carried:
                carried[where] += sample["bytes_in"] + sample["bytes_out"]

    for router, total in carried.items():
        stream = world.truth("router_stream_usage_samples", device=str(router))
        moved = sum(s["bytes_in"] + s["bytes_out"] for s in stream)
        assert total == pytest.approx(moved, rel=0.05)


@section("Observed: Fields")
def test_a_modem_in_a_drawer_keeps_the_samples_from_before(world: Service, spans):
    stored = [device for device in spans.values() if device[-1]["router_id"] is None and device[1:]]

    assert stored
    for device in stored:
        number, since = device[-1]["net_device_id"], instant(device[-1]["started_at"])
        path = f"net_device_usage_samples/?limit=500&net_device={number}"
        times = [instant(sample["created_at"]) for sample in world.walk(path)]
        [shown, now] = [[s for s in times if holds(span, s)] for span in (device[-2], device[-1])]
        assert len(shown) > 4 * 24
        assert now == []
        assert max(times) < since


@section("Observed: Fields")
def test_failovers_and_their_alerts_name_the_modem_that_was_there(world: Service, spans):
    episodes = world.truth("failover_episodes")
    records = {(r["router_id"], instant(r["started_at"])): r for r in world.truth("failovers")}
    named = {
        (a["router"], a["info"]["info"]["uid"])
        for a in world.truth("alerts")
        if a["type"] == "modem_wan_standby"
    }
    named_in_episodes = set()
    for episode in episodes:
        at = instant(episode["started_at"])
        [span] = [s for s in spans[episode["to_net_device_id"]] if holds(s, at)][-1:]
        assert span["router_id"] == episode["router_id"]
        assert (span["uid"], span["carrier"]) == (episode["to_uid"], episode["to_carrier"])
        record = records[episode["router_id"], at]
        assert record["current_wan_interface"] == episode["to_uid"]
        assert record["carrier_name"] == episode["to_carrier"]
        named_in_episodes.add((str(episode["router_id"]), episode["to_uid"]))

    by_id = {(last_segment(router), uid) for router, uid in named}
    assert by_id - named_in_episodes == set()
