"""Routers that are reset or replaced: the old id goes with its data, and a new id registers."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.simulator.sections import section
from tests.support.service import BEARER, NOW, Record, Service, instant, last_segment, start

RESET, REPLACED = "is reset to factory settings", "is replaced by another"
ROUTERS = 40
LATER = timedelta(days=6)
SERIES = ("router_state_samples", "router_stream_usage_samples", "router_logs", "router_alerts")


def registered_at(fact: Record) -> datetime:
    return instant(fact["registered_at"])


def registrations() -> list[Record]:
    """Return what happens to a fleet within days, from an identical fleet that runs ahead."""
    scout = start(routers=ROUTERS)
    scout.advance(days=LATER.days)
    facts = scout.truth("registrations")
    return sorted(facts, key=registered_at)


@pytest.fixture(scope="module")
def facts() -> list[Record]:
    return registrations()


def router(service: Service, number: int) -> Record | None:
    """Return a router as it is listed now, or None if it is not listed."""
    found = service.records(f"routers/?id={number}")
    return found[0] if found else None


def modems(service: Service, number: int) -> list[Record]:
    found = service.records(f"net_devices/?router={number}&type=mdm&limit=10")
    return sorted(found, key=lambda record: str(record["port"]) + str(record["iccid"]))


@pytest.fixture(scope="module")
def stories(facts) -> list[dict[str, Any]]:
    """Return each registration, with the service's records a second before and after it."""
    service = start(routers=ROUTERS)
    first, found = [int(number) for number in service.router_ids()], []
    for fact in facts:
        old, new = fact["replaces_router_id"], fact["router_id"]
        story: dict[str, Any] = {"fact": fact, "old": old, "new": new, "ids": first}
        for when, seconds in (("before", -1), ("after", 1)):
            until = registered_at(fact) + timedelta(seconds=seconds)
            service.advance(seconds=(until - service.now()).total_seconds())
            assets = service.ask(
                "GET", "/api/v3/beta/asset_endpoints?page[size]=50", headers=BEARER
            )
            story[when] = {
                "ids": [int(number) for number in service.router_ids()],
                old: (router(service, old), modems(service, old)),
                new: (router(service, new), modems(service, new)),
                "series": {
                    (name, number): len(service.records(f"{name}/?router={number}&limit=500"))
                    for name in SERIES
                    for number in (old, new)
                },
                "failovers": {record["router_id"] for record in service.walk("failovers/")},
                "assets": assets.json()["data"],
            }
        found.append(story)
    return found


@section("Simulator: truth")
def test_some_routers_are_reset_and_some_replaced_while_a_client_polls(facts):
    assert [fact["kind"] for fact in facts].count(RESET) == 2
    assert [fact["kind"] for fact in facts].count(REPLACED) == 1
    assert all(NOW + timedelta(hours=12) < registered_at(fact) < NOW + LATER for fact in facts)


@section("Simulator: truth")
def test_small_fleets_have_no_re_registrations():
    small = start(routers=12)
    small.advance(days=LATER.days)

    assert small.truth("registrations") == []
    assert len(small.router_ids()) == 12


@section("Resources: Conventions")
def test_the_number_of_routers_is_constant_and_each_new_one_appears_as_the_old_one_disappears(
    stories,
):
    for story in stories:
        before, after = story["before"]["ids"], story["after"]["ids"]

        assert len(before) == len(after) == ROUTERS
        assert set(before) - set(after) == {story["old"]}
        assert set(after) - set(before) == {story["new"]}
        assert story["new"] > max(story["ids"])


@section("Observed: Fields")
def test_a_replaced_router_keeps_name_group_and_sims_and_a_reset_one_also_mac_and_serial(stories):
    for story in stories:
        was, its_modems = story["before"][story["old"]]
        now, new_modems = story["after"][story["new"]]
        kept = ("name", "product", "account", "group", "locality", "full_product_name")
        hardware = ("mac", "serial_number")

        def last(record, names):
            return [last_segment(str(record[name])) for name in names]

        assert last(was, kept) == last(now, kept)
        assert (last(was, hardware) == last(now, hardware)) is (story["fact"]["kind"] == RESET)
        assert abs(instant(now["created_at"]) - registered_at(story["fact"])) < timedelta(seconds=1)
        assert {m["iccid"] for m in its_modems} == {m["iccid"] for m in new_modems}
        same = {m["imei"] for m in its_modems} == {m["imei"] for m in new_modems}
        assert same is (story["fact"]["kind"] == RESET)
        assert {m["id"] for m in its_modems}.isdisjoint(m["id"] for m in new_modems)
        assert all(last_segment(m["router"]) == str(story["new"]) for m in new_modems)
        assert (story["after"][story["old"]], story["before"][story["new"]]) == (
            (None, []),
            (None, []),
        )


@section("Resources: Conventions")
def test_the_data_of_a_router_disappears_with_its_id(stories):
    for story in stories:
        before, after = story["before"]["series"], story["after"]["series"]

        assert all(before[name, story["old"]] > 0 for name in SERIES)
        assert [after[name, story["old"]] for name in SERIES] == [0, 0, 0, 0]
        assert [before[name, story["new"]] for name in SERIES] == [0, 0, 0, 0]
        assert story["old"] not in story["after"]["failovers"]


@section("Observed: v3")
def test_the_asset_of_a_reset_router_is_the_same(stories):
    for story in stories:
        before, after = (
            {asset["id"]: asset["attributes"]["mac_address"] for asset in story[when]["assets"]}
            for when in ("before", "after")
        )
        assert (before == after) is (story["fact"]["kind"] == RESET)


@pytest.fixture(scope="module")
def later() -> Service:
    """Return the service after all registrations."""
    service = start(routers=ROUTERS)
    service.advance(days=LATER.days)
    return service


@pytest.mark.proof
@section("Simulator: truth")
def test_truth_has_every_record_and_none_of_an_unregistered_router(later, facts):
    until = {fact["replaces_router_id"]: registered_at(fact) for fact in facts}
    since = {fact["router_id"]: registered_at(fact) for fact in facts}
    alerts = later.truth("alerts")
    for number in (*until, *since):
        found = [
            a["created_at"] for a in alerts if last_segment(a["router"] or "//") == str(number)
        ]
        for name in ("router_state_samples", "router_stream_usage_samples", "historical_locations"):
            found += [r["created_at"] for r in later.truth(name, device=str(number))]
        times = [instant(text) for text in found]

        assert len(times) > 50
        assert all(
            since.get(number, min(times)) <= at <= until.get(number, max(times)) for at in times
        )


@section("Simulator: truth")
def test_spans_of_the_old_router_end_where_those_of_the_new_one_begin(later, facts):
    spans = {s["router_id"]: s for s in later.truth("router_spans")}
    devices = later.truth("interface_spans")
    for fact in facts:
        old, new = spans[fact["replaces_router_id"]], spans[fact["router_id"]]
        assert old["kind"] == new["kind"] == fact["kind"]
        assert old["router_name"] == new["router_name"]
        assert (old["ended_at"], new["ended_at"]) == (new["started_at"], None)
        bays = [d for d in devices if d["router_id"] in (old["router_id"], new["router_id"])]
        assert len(bays) == 4
        for bay in bays:
            of = spans[bay["router_id"]]
            assert (bay["started_at"], bay["ended_at"]) == (of["started_at"], of["ended_at"])


@section("Simulator: truth")
def test_events_of_a_router_happen_only_while_it_is_registered(later, facts):
    edges = {fact["replaces_router_id"]: (None, registered_at(fact)) for fact in facts}
    edges |= {fact["router_id"]: (registered_at(fact), None) for fact in facts}
    seen = set()
    for name in ("failover_episodes", "outages", "trips"):
        for fact in later.truth(name):
            since, until = edges.get(fact["router_id"], (None, None))
            assert since is None or instant(fact["started_at"]) >= since
            assert until is None or instant(fact["ended_at"]) < until
            seen.add(fact["router_id"])

    assert edges.keys() <= seen


@section("Resources: activity_logs")
def test_the_log_says_who_unregistered_the_old_router_and_that_the_new_one_registered(later, facts):
    logs = [
        (log["action"]["type_name"], int(log["object"]["id"]), instant(log["action"]["timestamp"]))
        for log in later.walk("activity_logs/?limit=500")
        if log["object"]["type_name"] == "router"
    ]
    moment = timedelta(seconds=5)
    for fact in facts:
        near = {(t, n) for t, n, at in logs if abs(at - registered_at(fact)) < moment}
        assert ("unregister", fact["replaces_router_id"]) in near
        assert ("register", fact["router_id"]) in near


@section("Resources: batteries")
def test_the_battery_of_a_reset_router_has_its_serial_and_health_under_a_new_id(facts):
    service = start(routers=ROUTERS)
    fact = next(fact for fact in facts if fact["kind"] == RESET)
    found = []
    for number, seconds in ((fact["replaces_router_id"], -1), (fact["router_id"], 1)):
        until = registered_at(fact) + timedelta(seconds=seconds)
        service.advance(seconds=(until - service.now()).total_seconds())
        found += service.records(f"batteries/?router={number}")

    old, new = found
    assert (old["serial"], old["health"]) == (new["serial"], new["health"])
    assert old["id"] != new["id"]


@section("Simulator: determinism")
def test_pages_read_during_a_re_registration_have_every_other_router_once(facts):
    service = start(routers=ROUTERS)
    fact = facts[0]
    before = (registered_at(fact) - timedelta(seconds=1) - service.now()).total_seconds()
    service.advance(seconds=before)
    page = service.page("routers/?limit=20&id__gt=0")
    service.advance(seconds=2)
    rest = service.walk(page["meta"]["next"].partition("/api/v2/")[2])

    ids = [int(record["id"]) for record in (*page["data"], *rest)]
    assert len(ids) == len(set(ids))
    now = {int(number) for number in service.router_ids()}
    assert set(ids) - {fact["replaces_router_id"]} == now


@section("Simulator: truth")
def test_every_list_of_current_records_names_only_registered_routers(later, facts):
    gone = {str(fact["replaces_router_id"]) for fact in facts}
    came = {str(fact["router_id"]) for fact in facts}
    for name in ("locations", "net_devices", "configuration_managers", "router_lans"):
        named = {
            last_segment(record["router"])
            for record in later.walk(f"{name}/?limit=500")
            if record["router"]
        }
        assert came <= named
        assert gone.isdisjoint(named)
    devices = {record["id"] for record in later.walk("net_devices/?limit=500&id__gt=0")}
    metrics = {record["id"] for record in later.walk("net_device_metrics/?limit=500&id__gt=0")}
    assert metrics <= devices
