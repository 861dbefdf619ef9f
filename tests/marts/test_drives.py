"""Trips of vehicles that drive, report and err as real ones do, against how they were driven."""

import math
import random
import shutil
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest

from fleetlake.lake import open_lake
from fleetlake.marts import build_marts
from fleetsim.drives import METRES_PER_DEGREE, WAYS, Trip, drive, report, seen_trips

pytestmark = [pytest.mark.release, pytest.mark.xdist_group("marts")]

MIDNIGHT = datetime(2026, 6, 1, tzinfo=UTC)
SEEDS = 3
TOLERANCE_S = 120
SHARE = 0.05
NARROWING = math.cos(math.radians(40))


@dataclass(frozen=True)
class Driven:
    """What was driven, what was reported of it, and what the marts make of it."""

    trips: list[tuple[Trip, float]]
    """What the fixes can show of each trip, and its length between the fixes."""
    built: list[tuple[float, float, float]] = field(default_factory=list)
    wrong: list[int] = field(default_factory=list)


@pytest.fixture(scope="module")
def driven(empty_lake, tmp_path_factory) -> dict[tuple[str, int], Driven]:
    """Build the trips of all cases and seeds at once."""
    folder = tmp_path_factory.mktemp("drives")
    found: dict[tuple[str, int], Driven] = {}
    rows: list[dict[str, object]] = []
    for name, way in WAYS.items():
        for seed in range(SEEDS):
            chance = random.Random(f"{name} {seed}")
            moments, trips = drive(chance, way.legs)
            fixes = report(chance, moments, way)
            rows += [
                {
                    "router_id": len(found),
                    "created_at_timeuuid": f"{len(found)}-{number}",
                    "created_at": MIDNIGHT + timedelta(seconds=fix.moment.second + fix.delay),
                    "latitude": 40 + fix.north / METRES_PER_DEGREE,
                    "longitude": -100 + fix.east / METRES_PER_DEGREE / NARROWING,
                    "mph": fix.kmh if fix.kmh is None else fix.kmh / 1.609344,
                }
                for number, fix in enumerate(fixes)
            ]
            found[name, seed] = Driven([seen for t in trips for seen in seen_trips(fixes, t)])
    pl.DataFrame(rows, infer_schema_length=None).write_parquet(folder / "fixes.parquet")
    lake = _filled(empty_lake, folder)
    build_marts(lake, select="+trips")
    return _read(lake, found)


def _filled(empty_lake: Path, folder: Path) -> Path:
    lake = Path(shutil.copytree(empty_lake, folder / "lake"))
    with open_lake(lake) as opened:
        opened.execute(
            "insert into raw.historical_locations by name select *, 'default' as account_profile,"
            " 'test' as _load_id, now() as _loaded_at from read_parquet(?)",
            [str(folder / "fixes.parquet")],
        )
    return lake


def _read(lake: Path, found: dict[tuple[str, int], Driven]) -> dict[tuple[str, int], Driven]:
    by_router = list(found.values())
    with open_lake(lake, read_only=True) as opened:
        for router, started, ended, km in opened.rows(
            "select router_id, epoch(started_at), epoch(ended_at), distance_km"
            " from marts.trips order by started_at"
        ):
            zero = MIDNIGHT.timestamp()
            by_router[router].built.append((started - zero, ended - zero, km * 1000))
        for router, wrong in opened.rows(
            "select router_id, count(*) from marts.location_track_points"
            " where quality <> 'good' group by 1"
        ):
            by_router[router].wrong.append(wrong)
    return found


def _misfit(driven: Driven) -> str | None:
    """Return how the trips built differ from those driven, if they do."""
    if len(driven.built) != len(driven.trips):
        return f"{len(driven.built)} trips instead of {len(driven.trips)}"
    for (started, ended, metres), (trip, seen) in zip(driven.built, driven.trips, strict=True):
        if abs(started - trip.started) > TOLERANCE_S:
            return f"a trip starts {started - trip.started:+.0f} s off"
        if abs(ended - trip.ended) > TOLERANCE_S:
            return f"a trip ends {ended - trip.ended:+.0f} s off"
        if (
            not min(seen, trip.metres) * (1 - SHARE)
            <= metres
            <= max(seen, trip.metres) * (1 + SHARE)
        ):
            return f"{metres:.0f} m instead of {trip.metres:.0f} m ({seen:.0f} m between fixes)"
    return None


@pytest.mark.parametrize("name", WAYS)
def test_trips_are_those_driven_however_they_are_reported(driven, name):
    misfits = [_misfit(driven[name, seed]) for seed in range(SEEDS)]

    assert misfits == [None] * SEEDS


@pytest.mark.parametrize("name", WAYS)
def test_coherent_fixes_are_never_rated_wrong(driven, name):
    assert [driven[name, seed].wrong for seed in range(SEEDS)] == [[]] * SEEDS
