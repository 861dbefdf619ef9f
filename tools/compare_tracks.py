"""Compare trips and stops, ours and those of a published library, with how vehicles were driven.

    python -m tools.compare_tracks TRACKINTEL_PYTHON

Vehicles of the simulator drive and report in each of its ways. The library (trackintel) reads the
same fixes in its own environment, with our definitions as its parameters. Writes the tables of the
page about the comparison.
"""

# ruff: noqa: T201 - it is run for what it prints

import math
import random
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import NamedTuple

import polars as pl
import yaml

from fleetlake.lake import open_lake
from fleetlake.marts import build_marts
from fleetlake.marts.sql_project import project_folder
from fleetsim.drives import (
    METRES_PER_DEGREE,
    WAYS,
    ReportedFix,
    Trip,
    Way,
    drive,
    report,
    seen_trips,
)
from tools.blocks import filled

PAGE = Path(__file__).parents[1] / "docs/explanation/tracks.md"
MIDNIGHT = datetime(2026, 6, 1, tzinfo=UTC)
NARROWING = math.cos(math.radians(40))
VARS = yaml.safe_load((project_folder() / "dbt_project.yml").read_text("utf-8"))["vars"]

BUILT = f"""
select router_id, 'trip', epoch(started_at), epoch(ended_at), 1000 * distance_km from marts.trips
union all
select router_id, 'stop', epoch(arrived_at), epoch(arrived_at) + dwell_s, 0 from marts.stops
where dwell_s >= {VARS["stop_s"]}
order by all
"""


class Span(NamedTuple):
    """A trip or a stop: from and until when, in seconds of the day, and how far, in metres.

    `seen` is the length of the straight lines between where the vehicle was at its fixes.
    """

    started: float
    ended: float
    metres: float = 0.0
    seen: float = 0.0


Found = dict[tuple[int, str], list[Span]]
"""Trips and stops in order, by the number of the vehicle and `trip` or `stop`."""


@dataclass(frozen=True)
class Vehicle:
    """A vehicle's way of life, its fixes, and what these can show of its day."""

    way: Way
    fixes: pl.DataFrame
    """As the service sends them, without their ids."""
    trips: list[tuple[Trip, float]]
    """Each trip with its length between the fixes."""
    stops: list[Span]


def vehicles(seeds: int = 1) -> Iterator[Vehicle]:
    """Yield a vehicle for each way of life and seed."""
    for name, way in WAYS.items():
        for seed in range(seeds):
            chance = random.Random(f"{name} {seed}")
            moments, trips = drive(chance, way.legs)
            fixes = report(chance, moments, way)
            parts = [part for trip in trips for part in seen_trips(fixes, trip)]
            yield Vehicle(way, _sent(fixes), parts, _seen_stops(fixes, trips, len(moments)))


def _sent(fixes: Sequence[ReportedFix]) -> pl.DataFrame:
    columns = {
        "created_at": [MIDNIGHT + timedelta(seconds=f.moment.second + f.delay) for f in fixes],
        "latitude": [40 + f.north / METRES_PER_DEGREE for f in fixes],
        "longitude": [-100 + f.east / METRES_PER_DEGREE / NARROWING for f in fixes],
        "mph": [f.kmh if f.kmh is None else f.kmh / 1.609344 for f in fixes],
    }
    return pl.DataFrame(columns, schema_overrides={"mph": pl.Float64})


def _seen_stops(fixes: Sequence[ReportedFix], trips: Sequence[Trip], day: int) -> list[Span]:
    """Return the stops before, between and after trips, each from its first to its last fix."""
    begins, ends = [0, *(t.ended for t in trips)], [*(t.started for t in trips), day]
    found = []
    for begin, end in zip(begins, ends, strict=True):
        seconds = [f.moment.second for f in fixes if begin <= f.moment.second <= end]
        if seconds and seconds[-1] - seconds[0] >= VARS["stop_s"]:
            found.append(Span(seconds[0], seconds[-1]))
    return found


def build(lake: Path, driven: Sequence[Vehicle]) -> Found:
    """Build the marts of vehicles into an empty lake; return their trips and stops."""
    frames = [
        vehicle.fixes.with_columns(router_id=pl.lit(number)).with_row_index("place")
        for number, vehicle in enumerate(driven)
    ]
    fixes = pl.concat(frames).with_columns(
        created_at_timeuuid=pl.format("{}-{}", "router_id", "place")
    )
    with open_lake(lake) as opened, opened.view("fixes", fixes.drop("place").to_arrow()):
        opened.execute(
            "insert into raw.historical_locations by name select *, 'default' as account_profile,"
            " 'test' as _load_id, now() as _loaded_at from fixes"
        )
    build_marts(lake, select="+trips +stops")
    with open_lake(lake, read_only=True) as opened:
        return _by_vehicle(opened.rows(BUILT))


def _by_vehicle(rows: Sequence[tuple[int, str, float, float, float]]) -> Found:
    found: Found = defaultdict(list)
    zero = MIDNIGHT.timestamp()
    for number, kind, started, ended, metres in rows:
        found[number, kind].append(Span(started - zero, ended - zero, metres))
    return found


def ask_library(python: str, driven: Sequence[Vehicle], folder: Path) -> Found:
    """Return the trips and stops that trackintel finds in the same fixes."""
    fixes = pl.concat(
        vehicle.fixes.select(
            pl.lit(number).alias("vehicle"),
            (pl.col("created_at").dt.epoch("ms") / 1000).alias("at_s"),
            "latitude",
            "longitude",
        )
        for number, vehicle in enumerate(driven)
    )
    fixes.write_csv(folder / "fixes.csv")
    limits = [VARS[name] for name in ("noise_m", "stop_s", "trip_gap_s", "shortest_trip_m")]
    script = Path(__file__).with_name("trackintel_run.py")
    paths = [folder / "fixes.csv", folder / "found.csv"]
    subprocess.run([python, script, *paths, *map(str, limits)], check=True)
    found = pl.read_csv(folder / "found.csv").sort("vehicle", "kind", "started_s")
    return _by_vehicle(found.rows())


def family_of(way: Way) -> str:
    """Return the row of the tables that a way of life counts in."""
    if way.name.startswith("a day every"):
        speed = "with speed" if way.sends_speed else "without speed"
        near = next(text for most, text in SAMPLINGS.items() if way.every <= most)
        return f"every {near}, {speed}"
    return next(family for start, family in FAMILIES.items() if way.name.startswith(start))


SAMPLINGS = {10: "1 to 10 s", 60: "30 to 60 s", 300: "2 to 5 min"}
FAMILIES = {
    "parked": "parked",
    "seldom": "every minute, every 15 minutes while parked",
    "walking": "walking pace",
    "two": "two receivers, or two fixes in a second",
    "a tunnel": "a tunnel of 5 minutes",
    "20 minutes": "20 minutes unseen",
    "": "40 minutes to 8 hours unseen",
}
"""The family of all other ways, by how their names begin."""


def pairs(true: Sequence[Span], found: Sequence[Span]) -> list[tuple[Span, Span]]:
    """Return true spans with those found for them, which cover at least half of their time.

    >>> len(pairs([Span(0, 10), Span(20, 30)], [Span(1, 9), Span(22, 24)]))
    1
    """
    both = [(min(t.ended, f.ended) - max(t.started, f.started), t, f) for t in true for f in found]
    matched: list[tuple[Span, Span]] = []
    for common, t, f in sorted(both, key=lambda one: one[0], reverse=True):
        is_free = all(t is not of and f is not by for of, by in matched)
        if is_free and common >= (t.ended - t.started) / 2:
            matched.append((t, f))
    return matched


def table(kind: str, driven: Sequence[Vehicle], finders: dict[str, Found]) -> str:
    """Return what each finder makes of the trips or stops, by family, as a Markdown table."""
    families: dict[str, list[int]] = defaultdict(list)
    for number, vehicle in enumerate(driven):
        families[family_of(vehicle.way)].append(number)
    columns = [kind + "s", "true", "by", "found", "missed", "invented", "start off", "end off"]
    columns += ["distance off"] * (kind == "trip")
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    for family, numbers in families.items():
        true = {n: _true(kind, driven[n]) for n in numbers}
        total = sum(map(len, true.values()))
        for name, found in finders.items():
            matched = [pair for n in numbers for pair in pairs(true[n], found.get((n, kind), []))]
            invented = sum(len(found.get((n, kind), [])) for n in numbers) - len(matched)
            offs = [
                _off([f.started - t.started for t, f in matched], "{:+.0f} s"),
                _off([f.ended - t.ended for t, f in matched], "{:+.0f} s"),
            ]
            if kind == "trip":
                offs.append(_off([_too_long(t, f.metres) for t, f in matched], "{:+.1f}%"))
            cells = [family, total, name, len(matched), total - len(matched), invented, *offs]
            lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


def _true(kind: str, vehicle: Vehicle) -> list[Span]:
    if kind == "stop":
        return vehicle.stops
    return [Span(trip.started, trip.ended, trip.metres, seen) for trip, seen in vehicle.trips]


def _too_long(true: Span, metres: float) -> float:
    """Return by how many percent a distance is too long: any between road and lines is right."""
    least, most = sorted((true.metres, true.seen))
    return 100 * (metres / min(max(metres, least), most) - 1)


def _off(errors: Sequence[float], shown: str) -> str:
    """Return the median error, and the worst one."""
    if not errors:
        return ""
    worst = max(errors, key=abs)
    return f"{shown.format(median(errors))} ({shown.format(worst)})"


def main(python: str) -> None:
    """Print the tables, and write them into the page."""
    driven = [*vehicles()]
    with tempfile.TemporaryDirectory() as folder:
        theirs = ask_library(python, driven, Path(folder))
        ours = build(Path(folder) / "lake", driven)
    finders = {"fleetlake": ours, "trackintel": theirs}
    shown = {f"{kind}s compared": table(kind, driven, finders) for kind in ("trip", "stop")}
    print(*shown.values(), sep="\n\n")
    blocks = {name: lambda text=text: text for name, text in shown.items()}
    PAGE.write_text(filled(PAGE.read_text("utf-8"), blocks), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
