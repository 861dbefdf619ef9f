"""Named places against the simulated world: when vehicles came to their depots, and left them."""

import math
from collections import defaultdict
from datetime import timedelta

import polars as pl
import pytest

from fleetlake.lake import open_lake
from fleetlake.loading.ingest import ingest, raise_worst
from fleetlake.marts import build_marts
from tests.support.mart_truth_fleet import BORN, FIX_INTERVAL_S, born

# They share what makes a run of dbt cheap.
pytestmark = [pytest.mark.proof, pytest.mark.xdist_group("marts")]

DAYS = timedelta(days=4)
LOADED = ("accounts", "routers", "historical_locations")
RADIUS_M = 150
HALF_SIDE_DEG = 0.002
DEGREE_M = 111_195.0
PLACE_M = 30.0
"""A fix is off by metres, so that a stop this near to the edge of a place may be in it or not."""
LOST = timedelta(minutes=15)
"""So near to a spell offline, fixes are missing."""


def depots_of(trips):
    """Return each vehicle's depot: where its trips of each day begin, as latitude and longitude."""
    places = defaultdict(list)
    for trip in trips.sort("started_at").iter_rows(named=True):
        places[trip["router_id"]].append((trip["from_latitude"], trip["from_longitude"]))
    return {router: max(set(spots), key=spots.count) for router, spots in places.items()}


def holds(number, depot, spot, margin_m=0.0):
    """Return whether a depot's place, made larger by a margin, holds a spot."""
    north_m = (spot[0] - depot[0]) * DEGREE_M
    east_m = ((spot[1] - depot[1] + 180) % 360 - 180) * DEGREE_M * math.cos(math.radians(depot[0]))
    if number % 2:
        return math.hypot(north_m, east_m) <= RADIUS_M + margin_m
    half_east_m = HALF_SIDE_DEG * DEGREE_M * math.cos(math.radians(depot[0])) + margin_m
    return abs(north_m) <= HALF_SIDE_DEG * DEGREE_M + margin_m and abs(east_m) <= half_east_m


def visits_of(trips, numbers, depots, margin_m):
    """Yield when each vehicle came to a place that holds its depot, or stops near it, and left."""
    for (router,), own in trips.sort("started_at").group_by("router_id"):
        rows = own.iter_rows(named=True)
        before = next(rows)
        depot = depots[router]
        for trip in rows:
            spot = (trip["from_latitude"], trip["from_longitude"])
            if holds(numbers[depot], depot, spot, margin_m):
                yield router, before["ended_at"], trip["started_at"]
            before = trip


def name_of(depot):
    return f"depot {depot[0]:.6f} {depot[1]:.6f}"


def row_of(number, depot):
    """Return a line of places.csv: every other depot is a square."""
    lat, lon = depot
    if number % 2:
        return f"{name_of(depot)},{lat},{lon},{RADIUS_M},"
    south, north = lat - HALF_SIDE_DEG, lat + HALF_SIDE_DEG
    west, east = ((lon + d + 180) % 360 - 180 for d in (-HALF_SIDE_DEG, HALF_SIDE_DEG))
    corners = ((west, south), (east, south), (east, north), (west, north), (west, south))
    return f'{name_of(depot)},,,,"POLYGON (({", ".join(f"{x} {y}" for x, y in corners)}))"'


@pytest.fixture(scope="module")
def depots(tmp_path_factory):
    """Build a fleet's marts in a project whose places are the depots; return them and the rest."""
    folder = tmp_path_factory.mktemp("places")
    fleet = born(routers=40, seed=5, lake=folder / "lake")
    fleet.advance_to(BORN + DAYS)
    raise_worst(ingest(fleet.settings, LOADED, transport=fleet.transport))
    trips = fleet.truth("trips")
    found = depots_of(trips)
    (folder / "fleetlake.toml").touch()
    lines = [row_of(number, depot) for number, depot in enumerate(sorted({*found.values()}))]
    header = "name,latitude_deg,longitude_deg,radius_m,wkt"
    (folder / "places.csv").write_text("\n".join([header, *lines, ""]), "utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        build_marts(folder / "lake", select="+place_visits")
    offline = fleet.truth("outages").filter(pl.col("kind") == "offline")
    return fleet, folder / "lake", found, trips, offline


def is_whole(router, first, last, offline):
    """Return whether no fix around an instant of the two was lost."""
    spells = offline.filter(pl.col("router_id") == router)
    ends = pl.col("ended_at").fill_null(last + DAYS)
    return not any(
        spells.filter(pl.col("started_at") < at + LOST, ends > at - LOST).height
        for at in (first, last)
    )


@pytest.mark.release
def test_a_visit_begins_and_ends_when_the_vehicle_came_to_the_depot_and_left_it(depots):
    _, lake, found, trips, offline = depots
    numbers = {depot: number for number, depot in enumerate(sorted({*found.values()}))}
    sure, possible = (
        {(r, came): left for r, came, left in visits_of(trips, numbers, found, margin)}
        for margin in (-PLACE_M, PLACE_M)
    )
    sure = {key for key in sure if is_whole(*key, sure[key], offline)}
    with open_lake(lake, read_only=True) as opened:
        rows = opened.rows(
            "select router_id, arrived_at, left_at, place_name, dwell_s from marts.place_visits"
            " where left_at is not null and not is_first_seen"
        )
    tolerance = timedelta(seconds=FIX_INTERVAL_S)
    matched = set()
    for router, came, left, place, dwell_s in rows:
        if not is_whole(router, came, left, offline):
            continue
        [hit] = [key for key in possible if key[0] == router and abs(key[1] - came) <= tolerance]
        matched.add(hit)
        assert abs(possible[hit] - left) <= tolerance
        assert place == name_of(found[router])
        assert abs(dwell_s - (left - came).total_seconds()) <= 1

    assert len(sure) > 20
    assert sure - matched == set()


def test_trips_and_stops_name_the_depot_and_no_other_place(depots):
    _, lake, found, trips, _ = depots
    from_depot = {
        (t["router_id"], t["started_at"])
        for t in trips.iter_rows(named=True)
        if (t["from_latitude"], t["from_longitude"]) == found[t["router_id"]]
    }
    with open_lake(lake, read_only=True) as opened:
        rows = opened.rows(
            "select router_id, started_at, start_place_name, end_place_name, is_open"
            " from marts.trips"
        )
        named = opened.rows(
            "select count(*) from marts.stops as s anti join marts.place_visits as v"
            " on s.router_id = v.router_id and s.arrived_at = v.arrived_at"
            " and s.place_name = v.place_name where s.place_name is not null"
        )
    tolerance = timedelta(seconds=FIX_INTERVAL_S)
    starts = {(router, at) for router, at, start, *_ in rows if start == name_of(found[router])}

    assert {start for _, _, start, *_ in rows} - {None} <= {name_of(d) for d in found.values()}
    for router, at in from_depot:
        told = [t for r, t, *_ in rows if r == router and abs(t - at) <= tolerance]
        assert all((router, t) in starts for t in told)
    assert len(starts) > 20
    assert named == [(0,)]
