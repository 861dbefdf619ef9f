"""Trips of vehicles that drive, report and err as real ones do, against how they were driven."""

import random
import shutil
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest
from tests.marts.drives import DAY, HOUR, Fix, Leg, Trip, drive, report, seen_metres

from fleetlake.lake import open_lake
from fleetlake.marts import build_marts

pytestmark = [pytest.mark.proof, pytest.mark.xdist_group("marts")]

MIDNIGHT = datetime(2026, 6, 1, tzinfo=UTC)
SEEDS = 3
TOLERANCE_S = 120
SHARE = 0.05


@dataclass(frozen=True)
class Case:
    """A vehicle's day: what it drives, and the keywords of how it is reported."""

    legs: tuple[Leg, ...] = DAY
    reported: dict[str, object] = field(default_factory=dict)


def cases() -> dict[str, Case]:
    """Return ways of driving and reporting by name."""
    found: dict[str, Case] = {}
    for every in (1, 5, 10, 30, 60, 120, 300):
        for noise in (0, 5, 10):
            for sends_speed in (True, False):
                name = f"every {every} s, noise {noise} m, {'speed' if sends_speed else 'no speed'}"
                how = {"every": every, "noise": noise, "sends_speed": sends_speed}
                found[f"a day {name}"] = Case(reported=how)
    for every in (1, 10, 60, 300):
        for noise in (5, 15, 20):
            for sends_speed in (True, False):
                name = f"every {every} s, noise {noise} m, {'speed' if sends_speed else 'no speed'}"
                how = {"every": every, "noise": noise, "sends_speed": sends_speed}
                found[f"parked {name}"] = Case((Leg(8 * HOUR if every > 1 else HOUR),), how)
    walking = (Leg(HOUR), Leg(1800, 5.8), Leg(HOUR))
    for every in (1, 10, 60):
        found[f"walking pace, every {every} s"] = Case(
            walking, {"every": every, "noise": 3, "sends_speed": False}
        )
    for sends_speed in (True, False):
        how = {"noise": 5, "sends_speed": sends_speed}
        seldom = how | {"every": 60, "parked_every": 900}
        found[f"seldom while parked, speed {sends_speed}"] = Case(reported=seldom)
        tunnel = how | {"every": 10, "unseen": [(2 * HOUR + 400, 2 * HOUR + 700)]}
        found[f"a tunnel, speed {sends_speed}"] = Case(reported=tunnel)
    return found


CASES = cases()


@dataclass(frozen=True)
class Driven:
    """What was driven, what was reported of it, and what the marts make of it."""

    trips: list[Trip]
    fixes: list[Fix]
    built: list[tuple[float, float, float]] = field(default_factory=list)
    wrong: list[int] = field(default_factory=list)


@pytest.fixture(scope="module")
def driven(empty_lake, tmp_path_factory) -> dict[tuple[str, int], Driven]:
    """Build the trips of all cases and seeds at once."""
    folder = tmp_path_factory.mktemp("drives")
    found: dict[tuple[str, int], Driven] = {}
    rows: list[dict[str, object]] = []
    for name, case in CASES.items():
        for seed in range(SEEDS):
            chance = random.Random(f"{name} {seed}")
            moments, trips = drive(chance, case.legs)
            fixes = report(chance, moments, **case.reported)
            rows += [
                {
                    "router_id": len(found),
                    "created_at_timeuuid": f"{len(found)}-{fix.moment.second}",
                    "created_at": MIDNIGHT + timedelta(seconds=fix.moment.second),
                    "latitude": fix.latitude,
                    "longitude": fix.longitude,
                    "mph": fix.kmh if fix.kmh is None else fix.kmh / 1.609344,
                }
                for fix in fixes
            ]
            found[name, seed] = Driven(trips, fixes)
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
    for (started, ended, metres), trip in zip(driven.built, driven.trips, strict=True):
        seen = seen_metres(driven.fixes, trip)
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


@pytest.mark.parametrize("name", CASES)
def test_trips_are_those_driven_however_they_are_reported(driven, name):
    misfits = [_misfit(driven[name, seed]) for seed in range(SEEDS)]

    assert misfits == [None] * SEEDS


@pytest.mark.parametrize("name", CASES)
def test_coherent_fixes_are_never_rated_wrong(driven, name):
    assert [driven[name, seed].wrong for seed in range(SEEDS)] == [[]] * SEEDS
