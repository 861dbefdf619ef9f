"""Peculiarities in how some routers report, and the truth about them."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import pairwise
from math import cos, hypot, radians
from typing import Any

import pytest

from tests.simulator.sections import section
from tests.support.service import NOW, Service, instant, last_segment, shared

KM_PER_DEGREE = 111.2


@pytest.fixture(scope="module")
def world() -> Service:
    return shared(days=7, routers=40)


@pytest.fixture(scope="module")
def reporting(world: Service) -> list[dict[str, Any]]:
    return world.truth("reporting")


def vehicles(reporting: list[dict[str, Any]], **habit: object) -> list[str]:
    found = [
        str(router["router_id"])
        for router in reporting
        if router["is_vehicle"] and all(router[name] == value for name, value in habit.items())
    ]
    assert found
    return found


def spans(world: Service, name: str, router: str) -> list[tuple[datetime, datetime]]:
    return [
        (instant(fact["started_at"]), instant(fact["ended_at"] or NOW.isoformat()))
        for fact in world.truth(name)
        if str(fact["router_id"]) == router
    ]


def lies_in(at: datetime, found: list[tuple[datetime, datetime]]) -> bool:
    return any(begin <= at < end for begin, end in found)


def km(a: dict[str, Any], b: dict[str, Any]) -> float:
    turn = (b["longitude"] - a["longitude"] + 540) % 360 - 180
    east = turn * cos(radians(a["latitude"]))
    return hypot(b["latitude"] - a["latitude"], east) * KM_PER_DEGREE


@section("Simulator: truth")
def test_some_vehicles_drive_across_the_antimeridian_at_the_pace_of_the_others(world, reporting):
    crossings = 0
    for router in vehicles(reporting, is_far=True):
        fixes = world.truth("historical_locations", device=router)
        assert all(-180 <= fix["longitude"] <= 180 for fix in fixes)
        assert all(abs(fix["longitude"]) > 179 for fix in fixes)
        crossings += sum(a["longitude"] * b["longitude"] < 0 for a, b in pairwise(fixes))
        seconds = [
            (instant(b["created_at"]) - instant(a["created_at"])).total_seconds()
            for a, b in pairwise(fixes)
        ]
        speeds = [km(a, b) / s for (a, b), s in zip(pairwise(fixes), seconds, strict=True)]
        assert max(speeds) * 3600 < 120

    ends = [
        trip[name] for trip in world.truth("trips") for name in ("from_longitude", "to_longitude")
    ]
    assert crossings > 0
    assert min(ends) < -179 < 179 < max(ends) <= 180


@section("Simulator: truth")
def test_some_vehicles_report_only_hourly_while_parked(world: Service, reporting):
    for router in vehicles(reporting, parked_every_minutes=60):
        trips = spans(world, "trips", router)
        times = [
            instant(fix["created_at"]) for fix in world.truth("historical_locations", device=router)
        ]

        # The truth lists no trip that was under way when the world began.
        parked = [at for at in times if at >= trips[0][0] and not lies_in(at, trips)]

        assert min(b - a for a, b in pairwise(parked)) > timedelta(minutes=58)
        assert min(b - a for a, b in pairwise(times)) < timedelta(minutes=2)


@section("Simulator: truth")
def test_some_vehicles_send_no_speed(world: Service, reporting):
    speeds = {
        sends: {
            fix["mph"] is None
            for router in vehicles(reporting, sends_speed=sends)[:2]
            for fix in world.truth("historical_locations", device=router)
        }
        for sends in (True, False)
    }

    assert speeds == {True: {False}, False: {True}}


def runs(fixes: list[dict[str, Any]], wrong: list[bool]) -> Iterator[tuple[Any, Any, bool]]:
    for (a, b), (is_a_wrong, is_b_wrong) in zip(pairwise(fixes), pairwise(wrong), strict=True):
        yield a, b, is_a_wrong != is_b_wrong


@section("Simulator: truth")
def test_fixes_are_tens_of_km_off_exactly_when_the_truth_says_so(world, reporting):
    lengths = set()
    for router in vehicles(reporting, sends_wrong_fixes=True):
        spells = spans(world, "wrong_fixes", router)
        fixes = world.truth("historical_locations", device=router)
        wrong = [lies_in(instant(fix["created_at"]), spells) for fix in fixes]

        for a, b, enters_or_leaves in runs(fixes, wrong):
            assert (km(a, b) > 30) or not enters_or_leaves
        right = [fix for fix, is_wrong in zip(fixes, wrong, strict=True) if not is_wrong]
        assert all(km(a, b) < 30 for a, b in pairwise(right))
        within = [
            sum(lies_in(instant(f["created_at"]), [spell]) for f in fixes) for spell in spells
        ]
        lengths.update(within)

    others = {str(fact["router_id"]) for fact in world.truth("wrong_fixes")}
    assert others == set(vehicles(reporting, sends_wrong_fixes=True))
    assert {1, 2, 3} <= lengths


@section("Resources: alerts")
def test_a_drifting_clock_stamps_its_own_alerts_and_not_those_of_the_service(world, reporting):
    drifting = {str(r["router_id"]) for r in reporting if r["has_drifting_clock"]}
    off = {(drifts, by_device): 0.0 for drifts in (True, False) for by_device in (True, False)}
    for alert in world.truth("alerts"):
        created, detected = instant(alert["created_at"]), instant(alert["detected_at"])
        by_device = alert["type"] not in ("connection_state", "config_change")
        kind = (last_segment(alert["router"] or "") in drifting, by_device)
        off[kind] = max(off[kind], abs((created - detected).total_seconds()))

    assert 10 < off.pop((True, True)) < 109
    assert max(off.values()) < 4
