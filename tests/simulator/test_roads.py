"""Vehicles that drive as people do: what they report, and what the truth says of it."""

import itertools
from collections import Counter
from datetime import datetime, timedelta

import pytest

from fleetsim.drives import WAYS
from tests.simulator.sections import section
from tests.support.service import Service, instant, shared

pytestmark = pytest.mark.proof

FLEET = {"seed": 5, "routers": 5, "days": 2}


@pytest.fixture(scope="module")
def roads() -> Service:
    return shared(**FLEET, roads=True)


def fixes_of(service: Service, router: int) -> list[dict]:
    return service.truth("historical_locations", device=str(router))


def times(record: dict) -> tuple[datetime, datetime]:
    return tuple(instant(record[end]) for end in ("started_at", "ended_at"))


@section("Simulator: truth")
def test_each_vehicle_has_a_way_of_life_on_request_only(roads):
    ways = {r["router_id"]: r.get("way_of_life") for r in roads.truth("reporting")}
    plain = shared(**FLEET).truth("reporting")

    driving = [r["router_id"] for r in plain if r["is_vehicle"]]
    assert [ways[router] for router in driving] == list(WAYS)[: len(driving)]
    assert not any("way_of_life" in r for r in plain)


@section("Simulator: truth")
def test_the_truth_of_a_trip_says_what_its_fixes_can_show(roads):
    trips = [trip for trip in roads.truth("trips") if trip["ended_at"]]

    assert trips
    for trip in trips:
        begin, end = times(trip)
        for part in trip["parts"]:
            first, last = times(part)
            assert begin <= first < last <= end
            assert part["miles_between_fixes"] <= part["distance_miles"] * 1.001


@section("Simulator: truth")
def test_a_day_begins_where_the_day_before_ended(roads):
    last: dict[int, dict] = {}
    for trip in roads.truth("trips"):
        before = last.get(trip["router_id"])
        if before:
            for axis in ("latitude", "longitude"):
                assert trip[f"from_{axis}"] == pytest.approx(before[f"to_{axis}"], abs=1e-3)
        last[trip["router_id"]] = trip


@section("Simulator: truth")
def test_the_record_of_a_location_is_the_last_fix(roads):
    latest = {r["router"].split("/")[-2]: r for r in roads.truth("locations")}
    for router in [r["router_id"] for r in roads.truth("reporting") if r["way_of_life"]][:2]:
        fix, record = fixes_of(roads, router)[-1], latest[str(router)]

        assert (fix["latitude"], fix["longitude"]) == (record["latitude"], record["longitude"])


@section("Simulator: truth")
def test_the_first_way_reports_each_second(roads):
    way = next(r for r in roads.truth("reporting") if r["way_of_life"])
    stamps = [instant(f["created_at"]) for f in fixes_of(roads, way["router_id"])]
    steps = Counter(b - a for a, b in itertools.pairwise(stamps))

    assert steps.most_common(1)[0][0] == timedelta(seconds=1)
