"""`make soak-year`: half a year of hourly loads; what the last week costs, and the fourth one.

One process loads a small simulated fleet hour by hour, and maintains the lake each night. Its clock
and the service's move by an hour after each load (`clock.c` is preloaded), so snapshots and files
grow old as they would. Of each load it notes CPU time, files, the catalog's size, memory and open
descriptors.

CPU time is also divided by that of a fixed query beside it, because machines are noisy: that ratio
is compared. At the end the lake must have every record that the service made, and nothing may be
more than `MOST` times what it was in the fourth week. Needs cc.
"""

import argparse
import ctypes
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

import duckdb

from tools.bench.cases import DLT_PYTHON
from tools.bench.figures import Section
from tools.bench.fleet import HOUR, Fleet, environment_of
from tools.bench.records import ready

HERE = Path(__file__).parent
CLOCK = "SOAK_YEAR_CLOCK"
HOURS_OF_WEEK, HOURS_OF_DAY = 168, 24
MOST = 1.2
FIXED = "select sum(hash(i)) from range(4000000) t(i)"


@dataclass(frozen=True, kw_only=True)
class Hour:
    """What a load took and left: CPU seconds, its ratio to the fixed query's, and sizes."""

    cpu_seconds: float
    cpu_ratio: float
    wall_seconds: float
    calls: int
    rows: int
    files: int
    catalog_mb: float
    lake_mb: float
    memory_mb: float
    descriptors: int


def hours(fleet: Fleet, count: int, set_ahead: ctypes._CFuncPtr) -> Iterator[Hour]:
    """Load and maintain hour after hour; yield what each load took."""
    from fleetlake.care.maintenance import maintain  # noqa: PLC0415 - after the settings are set
    from fleetlake.lake import connection, open_lake  # noqa: PLC0415
    from fleetlake.loading.ingest import ingest, raise_worst  # noqa: PLC0415
    from fleetlake.settings import load_settings  # noqa: PLC0415

    settings, calls, just_now = load_settings(), 0, connection.JUST_NOW_NS
    with duckdb.connect(config={"threads": 1}) as beside:
        for hour in range(count):
            began, wall = time.process_time(), time.perf_counter()
            outcomes = ingest(settings, [])
            taken, wall = time.process_time() - began, time.perf_counter() - wall
            raise_worst(outcomes)
            began = time.process_time()
            beside.execute(FIXED).fetchall()
            fixed = time.process_time() - began
            if hour % HOURS_OF_DAY == HOURS_OF_DAY - 1:
                with open_lake(settings.lake) as lake:
                    maintain(lake)
            calls, before = fleet.calls(), calls
            files = [file.stat().st_size for file in settings.lake.rglob("*.parquet")]
            yield Hour(
                cpu_seconds=round(taken, 3),
                cpu_ratio=round(taken / fixed, 2),
                wall_seconds=round(wall, 3),
                calls=calls - before,
                rows=sum(outcome.added for outcome in outcomes),
                files=len(files),
                catalog_mb=(settings.lake / "catalog.sqlite").stat().st_size / 1e6,
                lake_mb=sum(files) / 1e6,
                memory_mb=int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6,
                descriptors=len([*Path("/proc/self/fd").iterdir()]),
            )
            fleet.advance()
            ahead = int((hour + 1) * HOUR.total_seconds())
            set_ahead(ahead)
            # Files have the time of the machine, so to be old is to be older than that.
            connection.JUST_NOW_NS = just_now + ahead * 1_000_000_000


def weeks(measured: Sequence[Hour]) -> list[dict[str, float]]:
    """Return the medians of each whole week."""
    found = []
    for start in range(0, len(measured) - HOURS_OF_WEEK + 1, HOURS_OF_WEEK):
        week = [asdict(hour) for hour in measured[start : start + HOURS_OF_WEEK]]
        found.append({name: median(hour[name] for hour in week) for name in week[0]})
    return found


def grown(found: Sequence[dict[str, float]]) -> dict[str, float]:
    """Return by how much the last week is more than the fourth, or the first of fewer than five."""
    early = found[3] if len(found) > 4 else found[0]
    compared = ("cpu_ratio", "files", "catalog_mb", "memory_mb", "descriptors")
    return {name: round(found[-1][name] / early[name], 2) for name in compared}


def soak(days: int, routers: int, folder: Path) -> list[Hour]:
    """Run the loads, say each day how it goes, and compare the lake with the service's truth."""
    preloaded = ctypes.CDLL(os.environ[CLOCK])
    os.environ.pop("LD_PRELOAD")  # the simulator has a clock of its own
    start, measured = datetime.now(UTC).replace(microsecond=0), list[Hour]()
    options = ["--port", "0", "--routers", str(routers), "--days", "2", "--speed", "0"]
    with ready("fleetsim", *options, "--now", start.isoformat()) as url:
        env = environment_of(url, folder)
        os.environ |= {name: value for name, value in env.items() if name.startswith("FLEETLAKE")}
        section = Section(name="year", title=f"{routers} routers")
        fleet = Fleet(url, routers, 1, env, section, parts=("lists",), now=start)
        for hour in hours(fleet, days * HOURS_OF_DAY, preloaded.set_ahead):
            measured.append(hour)
            if len(measured) % HOURS_OF_DAY == 0:
                sys.stderr.write(f"  day {len(measured) // HOURS_OF_DAY}: {asdict(hour)}\n")
        fleet.now -= HOUR  # the clock has moved since the last load
        fleet.check()
        sys.stderr.write(f"  The lake has what the service made: {fleet.checked}\n")
    return measured


def main() -> None:
    """Run the soak, keep and draw the figures, and fail if something has grown."""
    parser = argparse.ArgumentParser(prog="make soak-year", description=__doc__)
    parser.add_argument("--days", type=int, default=182)
    parser.add_argument("--routers", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        if CLOCK not in os.environ:
            clock = folder / "clock.so"
            words = ["cc", "-shared", "-fPIC", "-O1", HERE / "clock.c", "-o", clock, "-ldl"]
            subprocess.run(words, check=True)
            env = os.environ | {CLOCK: str(clock), "LD_PRELOAD": str(clock)}
            again = [sys.executable, "-m", "tools.bench.year", *sys.argv[1:]]
            sys.exit(subprocess.run(again, env=env, check=False).returncode)
        found = weeks(soak(options.days, options.routers, folder))
    if not found:
        sys.exit("A soak takes at least a week: make soak-year DAYS=7.")
    target = HERE / "year.json" if options.days > 30 else Path("data/bench/year.json")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(found, indent=1) + "\n")
    if DLT_PYTHON.exists():
        subprocess.check_call([DLT_PYTHON, HERE / "year_plot.py", target])
    ratios = grown(found)
    sys.stdout.write(f"The last of {len(found)} weeks is, of an earlier one: {ratios}\n")
    sys.stdout.write(f"Figures are in {target}.\n")
    if worse := [name for name, ratio in ratios.items() if ratio > MOST]:
        sys.exit(f"These have grown: {', '.join(worse)}.")


if __name__ == "__main__":
    main()
