"""Routers that change account, group or name, and groups that are renamed."""

from collections import defaultdict
from datetime import timedelta
from itertools import pairwise

import pytest

from tests.simulator.sections import section
from tests.support.service import Record, Service, instant, last_segment, shared, start

MOMENT = timedelta(seconds=3)


@pytest.fixture(scope="module")
def world() -> Service:
    return shared(days=13, routers=50)


@pytest.fixture(scope="module")
def spans(world: Service) -> dict[int, list[Record]]:
    found = defaultdict(list)
    for fact in world.truth("router_spans"):
        found[fact["router_id"]].append(fact)
    return dict(found)


def number(url: str | None) -> int | None:
    return None if url is None else int(last_segment(url))


@section("Simulator: truth")
@pytest.mark.parametrize(
    ("kind", "changing"),
    [
        ("changes account", {"account_id", "group_id"}),
        ("changes group", {"group_id"}),
        ("is renamed", {"router_name"}),
    ],
)
def test_some_routers_change_their_account_group_or_name(spans, kind, changing):
    routers = [router for router in spans.values() if router[0]["kind"] == kind]

    assert len(routers) == 2
    for router in routers:
        assert len(router) in (4, 5)
        for a, b in pairwise(router):
            assert {n for n in ("account_id", "group_id", "router_name") if a[n] != b[n]} <= (
                changing
            )
            assert any(a[name] != b[name] for name in changing)


@section("Simulator: truth")
def test_small_fleets_do_not_change():
    small = start(days=13, routers=12)

    assert {span["kind"] for span in small.truth("router_spans")} == {"stays"}
    assert not any("(pilot)" in group["name"] for group in small.truth("groups"))


@section("Observed: Fields")
def test_routers_are_listed_as_they_are_now(world: Service, spans):
    for record in world.walk("routers/?limit=500&id__gt=0"):
        now = spans[int(record["id"])][-1]
        assert number(record["account"]) == now["account_id"]
        assert number(record["group"]) == now["group_id"]
        assert record["name"] == now["router_name"]
        if len(spans[int(record["id"])]) > 1:
            assert instant(record["updated_at"]) >= instant(now["started_at"])


@section("Observed: Fields")
def test_failovers_name_the_account_group_and_router_name_at_their_start(world: Service, spans):
    seen = set()
    for record in world.truth("failovers"):
        at = instant(record["started_at"])
        then = [s for s in spans[record["router_id"]] if instant(s["started_at"]) <= at][-1]
        assert record["account_id"] == then["account_id"]
        assert record["group_id"] == then["group_id"]
        assert record["router_name"] == then["router_name"]
        seen.add(then["kind"])

    assert {"stays", "changes account", "changes group", "is renamed"} <= seen


@section("Events: Alert types")
def test_a_change_of_group_raises_an_alert_and_every_change_is_logged(world: Service, spans):
    changes = [
        (router, instant(b["started_at"]), a, b)
        for router, found in spans.items()
        for a, b in pairwise(found)
    ]
    alerts = [a for a in world.truth("alerts") if a["type"] == "router_group_change"]
    logs = [
        log
        for log in world.truth("activity_logs")
        if log["object"]["type_name"] == "router" and "group" in log["action"].get("after", {})
    ]

    assert len(logs) == len(changes)
    for router, at, a, b in changes:
        [log] = [
            log["action"]
            for log in logs
            if int(log["object"]["id"]) == router
            and at <= instant(log["action"]["timestamp"]) < at + MOMENT
        ]
        for side, then in (("before", a), ("after", b)):
            assert (log[side]["name"], int(log[side]["account"])) == (
                then["router_name"],
                then["account_id"],
            )
    regrouped = {(router, at) for router, at, a, b in changes if a["group_id"] != b["group_id"]}
    assert len(alerts) == len(regrouped)
    for alert in alerts:
        assert any(
            number(alert["router"]) == router and at <= instant(alert["created_at"]) < at + MOMENT
            for router, at in regrouped
        )


@section("Resources: groups")
def test_some_groups_are_renamed_and_their_names_come_back(world: Service):
    names = defaultdict(set)
    for record in world.truth("failovers"):
        names[record["group_id"]].add(record["group_name"])

    assert {len(found) for found in names.values()} == {1, 2}


@section("Resources: groups")
def test_groups_are_renamed_at_different_times(make_service):
    service = make_service(routers=50, days=1)
    names: dict[str, str] = {}
    days = defaultdict(set)
    for day in range(13):
        now = {group["id"]: group["name"] for group in service.truth("groups")}
        days[day] = {group for group, name in now.items() if names.get(group, name) != name}
        names = now
        service.advance(hours=24)

    assert len({day for day, renamed in days.items() if renamed}) > 4
    assert max(len(renamed) for renamed in days.values()) < len(set().union(*days.values()))


@section("Authentication: v2")
def test_an_account_sees_a_router_only_while_the_router_belongs_to_it(make_service):
    service = make_service(routers=50, days=1)
    seen = []
    for _ in range(9):
        service.advance(hours=24)
        there = {r["id"] for r in service.walk("routers/?limit=500", role="subaccount")}
        truth = {
            str(s["router_id"]): s["account_id"]
            for s in service.truth("router_spans")
            if s["ended_at"] is None
        }
        assert there == {router for router, account in truth.items() if account in (10204, 10333)}
        seen.append(frozenset(there))

    assert len(set(seen)) > 1
