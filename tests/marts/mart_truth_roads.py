"""Compare trips with those of vehicles that drive as people do and report in many ways.

Simulates fleets of three seeds, each with every way of life, ingests their fixes, builds, and
prints the trips that differ from what the fixes can show: another number of trips, a start or end
off by more than two minutes, a distance off by more than 5 %, a fix rated wrong. Exits with 1 if
there are any. `make mart-truth` runs it.
"""

# ruff: noqa: T201 - it is run for what it prints

import argparse
import sys
import tempfile
import time
from collections import Counter
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import polars as pl

from fleetlake.lake import open_lake
from fleetlake.loading.ingest import ingest, raise_worst
from fleetlake.marts import build_marts
from fleetsim.drives import WAYS, Way
from tests.support.mart_truth_fleet import BORN, Fleet, born

DAYS = 2
ROUTERS = 230
"""Enough for a vehicle of each way of life."""
TOLERANCE = timedelta(minutes=2)
SHARE, NOISY_SHARE = 0.05, 0.15
DENSE_S, NOISY_M = 10, 10
MILE_KM = 1.609344
BESIDE = timedelta(minutes=15)
"""Fixes are missing while a router is offline; a trip this close to it has no ends to compare."""

SUMS = """
select (select count(*) from marts.trips), (select sum(trips) from marts.vehicle_daily),
       (select sum(distance_km) from marts.trips),
       (select sum(distance_km) from marts.vehicle_daily),
       (select sum(duration_s) from marts.trips),
       (select sum(driving_s) + sum(idle_s) from marts.vehicle_daily)
"""

Part = dict[str, Any]
Spell = tuple[int, datetime, datetime]


def share(way: Way) -> float:
    """Return how much a distance may be off: much noise on many fixes without speed adds up."""
    is_dense = way.every <= DENSE_S and way.noise >= NOISY_M and not way.sends_speed
    return NOISY_SHARE if is_dense else SHARE


def differences(parts: list[Part], built: list[Part], share: float) -> list[str]:
    """Return how the trips built for a vehicle differ from what its fixes can show."""
    if len(built) != len(parts):
        return [f"trips {_shown(built)} instead of {_shown(parts)}"]
    found = []
    for part, trip in zip(parts, built, strict=True):
        off = {end: trip[end] - part[end] for end in ("started_at", "ended_at")}
        found += [
            f"{end} {by.total_seconds():+.0f} s" for end, by in off.items() if abs(by) > TOLERANCE
        ]
        miles = (part["distance_miles"], part["miles_between_fixes"])
        km = trip["distance_km"]
        if not min(miles) * (1 - share) <= km / MILE_KM <= max(miles) * (1 + share):
            found.append(f"{km:.2f} km instead of {miles[0] * MILE_KM:.2f} km")
    return found


def _shown(trips: list[Part]) -> str:
    """Return when trips began and ended."""
    return ", ".join(f"{t['started_at']:%d. %H:%M:%S} to {t['ended_at']:%H:%M:%S}" for t in trips)


def day_differences(parts: list[Part], days: list[Part], zone: ZoneInfo, share: float) -> list[str]:
    """Return how a vehicle's days differ from its trips; no simulated trip is over midnight."""
    found = []
    driven: dict[date, list[Part]] = {}
    for part in parts:
        driven.setdefault(part["started_at"].astimezone(zone).date(), []).append(part)
    used = None
    for day in days:
        trips = driven.pop(day["local_date"], [])
        used = day["local_date"] if trips else used
        low, high = (
            sum(of(t["distance_miles"], t["miles_between_fixes"]) for t in trips) * MILE_KM
            for of in (min, max)
        )
        seconds = sum((t["ended_at"] - t["started_at"]).total_seconds() for t in trips)
        is_right = (
            day["trips"] == len(trips)
            and low * (1 - share) - 0.01 <= day["distance_km"] <= high * (1 + share) + 0.01
            and abs(day["driving_s"] + day["idle_s"] - seconds)
            <= 2 * TOLERANCE.total_seconds() * len(trips)
            and used is not None
            and day["unused_days"] == (day["local_date"] - used).days
        )
        if not is_right:
            found.append(f"{day['local_date']}: {day}")
    return found + [f"{day}: no row" for day in driven]


def compare_roads(fleet: Fleet, lake_path: Path) -> bool:
    """Print the ways of life whose trips differ; return whether there are none."""
    until = fleet.now() - timedelta(hours=1)
    # A trip that begins with a vehicle's first fix was under way when the history began.
    spells, parts = offline_spells(fleet, until), parts_of(fleet)
    with open_lake(lake_path, read_only=True) as lake:
        built = lake.execute("select * from marts.trips order by started_at").pl().to_dicts()
        first_fixes = dict(
            lake.rows("select router_id, min(created_at) from raw.historical_locations group by 1")
        )
        wrong: dict[int, int] = dict(
            lake.rows(
                "select router_id, count(*) from marts.location_track_points"
                " where quality <> 'good' group by 1"
            )
        )
        days = lake.execute("select * from marts.vehicle_daily order by local_date").pl().to_dicts()
        sums = lake.rows(SUMS)[0]
    zones = dict(fleet.truth("routers").select(pl.col("id").cast(int), "locality").rows())
    built = [trip for trip in built if trip["started_at"] > first_fixes[trip["router_id"]]]
    ways = fleet.truth("reporting").filter(
        pl.col("way_of_life").is_not_null(), pl.col("router_id").is_in([*first_fixes])
    )
    good, counts = True, Counter[str]()
    for router, way in ways.select("router_id", "way_of_life").rows():
        driven, found = compared(router, parts, built, spells, until)
        counts[way] += len(driven)
        off = differences(driven, found, share(WAYS[way]))
        if router in wrong:
            off.append(f"{wrong[router]} fixes rated wrong")
        own = [d for d in days if d["router_id"] == router]
        if not off and len(found) == sum(trip["router_id"] == router for trip in built):
            off = day_differences(driven, own, ZoneInfo(zones[router]), share(WAYS[way]))
        if off:
            good = False
            print(f"  {way} (router {router}): {'; '.join(off)}")
    print(f"vehicle_daily and trips: {sums}")
    good &= sums[0] == sums[1] and abs(sums[2] - sums[3]) < 1 and abs(sums[4] - sums[5]) < 1
    print(f"{len(counts)} ways of life, {sum(counts.values())} trips compared")
    return good


def offline_spells(fleet: Fleet, until: datetime) -> list[Spell]:
    """Return router, start and end of the spells offline, with what is beside them."""
    spells = fleet.truth("outages").filter(pl.col("kind") == "offline")
    rows = spells.select("router_id", "started_at", "ended_at").rows()
    return [(router, s - BESIDE, (e or until) + BESIDE) for router, s, e in rows]


def compared(
    router: int, parts: list[Part], built: list[Part], spells: list[Spell], until: datetime
) -> tuple[list[Part], list[Part]]:
    """Return the parts and the built trips of a router that fixes can decide.

    A trip under way or beside a spell offline decides nothing, and nothing that overlaps it does.
    """
    off = [(start, end) for of, start, end in spells if of == router]
    both = [[t for t in trips if t["router_id"] == router] for trips in (parts, built)]
    undecided = [
        (t["started_at"], t["ended_at"])
        for trips in both
        for t in trips
        if t["ended_at"] >= until or _overlaps(t, off)
    ]
    driven, found = ([t for t in trips if not _overlaps(t, undecided)] for trips in both)
    return driven, found


def _overlaps(trip: Part, spans: list[tuple[datetime, datetime]]) -> bool:
    return any(start < trip["ended_at"] and end > trip["started_at"] for start, end in spans)


def parts_of(fleet: Fleet) -> list[Part]:
    """Return what the fixes of all vehicles can show of their trips."""
    fields = ("started_at", "ended_at", "distance_miles", "miles_between_fixes")
    trips = fleet.truth("trips").select("router_id", "parts").explode("parts").drop_nulls()
    frame = trips.select("router_id", *(pl.col("parts").struct.field(name) for name in fields))
    frame = frame.drop_nulls().with_columns(
        pl.col("started_at", "ended_at").str.to_datetime(time_unit="us", time_zone="UTC")
    )
    return frame.sort("started_at").to_dicts()


def main() -> int:
    """Compare fleets of the seeds asked for; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--routers", type=int, default=ROUTERS)
    options = parser.parse_args()
    good = True
    for seed in options.seeds:
        with tempfile.TemporaryDirectory() as folder:
            began, lake = time.monotonic(), Path(folder) / "lake"
            fleet = born(routers=options.routers, seed=seed, lake=lake, roads=True)
            fleet.advance_to(BORN + timedelta(days=DAYS))
            names = ["routers", "historical_locations"]
            raise_worst(ingest(fleet.settings, names, transport=fleet.transport))
            build_marts(lake, select="+vehicle_daily")
            print(f"seed {seed}: built after {time.monotonic() - began:.0f} s")
            good &= compare_roads(fleet, lake)
    print("good" if good else "NOT GOOD")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
