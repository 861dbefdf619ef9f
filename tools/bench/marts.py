"""Time builds: a full one over many rows, one of a new hour, live ones, and a full rebuild.

`make bench-marts` runs it.

The rows are created directly in the lake: usage and signal samples every 15 minutes and fixes of
vehicles that drive for an hour and stand for an hour. Each vehicle's router raises an alert every
quarter of an hour and fails over once a day. Prints seconds, within dbt's models and in total, CPU
seconds, which a busy machine affects less, and the peak memory of the build's processes. The live
builds follow one another in one process, each after new alerts: the first one starts dbt. An hour
is built twice: in a new process, as `fleetlake build` and the hourly deployment do it, and by the
dbt process of the live builds, which shows what keeping one would save.

Exits with 1 if the hour in a new process costs 8% of the full build's CPU seconds or more, or if an
alert would wait for its mart for over 30 s: a build may just have begun, and be followed by a rest.
"""

# ruff: noqa: T201 - it is run for what it prints

import argparse
import multiprocessing
import resource
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import psutil

from fleetlake.lake import Lake, open_lake
from fleetlake.marts import BuildResult, build_marts
from fleetlake.marts.dbt_process import DbtProcess
from fleetlake.startup import prepare_start

START = "timestamptz '2026-05-01 00:00:00+00'"
DAYS = 35
PERIOD_S = 900
FIX_S = 300
LARGEST_SHARE = 0.08
LONGEST_WAIT_S = 30
LIVE_BUILDS = 3

REST_SECONDS = 10
CHARGED = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)

COMMON = "'default' as account_profile, '{load}' as _load_id, now() as _loaded_at"

SAMPLES = """
insert into raw.net_device_{kind}_samples by name
select d as net_device_id, {values}, {common},
       {start} + to_seconds(p * {period} + d % {period}) as created_at,
       concat(d, '-', p) as created_at_timeuuid
from range({first}, {last}) as period (p), range({devices}) as device (d)
"""
USAGE = "(hash(d, p) % 1000000)::bigint as bytes_in, 5000 as bytes_out, 900 as period"
SIGNAL = "-80.0 - hash(d, p) % 40 as rsrp, 10.0 as sinr, 60.0 as signal_percent"

FIXES = """
insert into raw.historical_locations by name
select d as router_id, {common},
       {start} + to_seconds(p * {period} + d % {period}) as created_at,
       concat(d, '-', p) as created_at_timeuuid,
       30 + d % 1000 / 100.0 + sin(driven / 24.0) / 10 as latitude,
       -100 + cos(driven / 24.0) / 10 as longitude,
       if(p % 24 < 12, 35.0, 0.0) as mph, -95.0 as rsrp, 'Northcell' as carrier_id
from (
    select p, d, p // 24 * 12 + least(p % 24, 12) as driven
    from range({first}, {last}) as period (p), range({devices}) as device (d)
)
"""


ALERTS = """
insert into raw.alerts by name
select d as router_id, {common},
       {start} + to_seconds(p * {period} + d % {period}) as created_at, created_at as detected_at,
       concat('{load}-', d, '-', p) as created_at_timeuuid,
       ['reboot', 'wan_connected', 'ethernet_wan_disconnected', 'connection_state'][1 + (d + p) % 4]
           as type
from range({first}, {last}) as period (p), range({devices}) as device (d)
"""

FAILOVERS = """
insert into raw.failovers by name
select d as router_id, {common}, {start} + to_seconds(p * 86400 + d) as started_at,
       started_at + interval 10 minute as ended_at, concat(d, '-', p) as uuid,
       'ethernet-wan' as previous_wan_interface, 'mdm-1' as current_wan_interface
from range({first}, {last}) as period (p), range({devices}) as device (d)
"""


def add_alerts(lake: Lake, *, load: str, first_s: int, last_s: int, vehicles: int) -> None:
    """Commit the alerts of a span of seconds since the start."""
    lake.execute(
        ALERTS.format(
            common=COMMON.format(load=load),
            load=load,
            start=START,
            period=PERIOD_S,
            first=first_s // PERIOD_S,
            last=last_s // PERIOD_S,
            devices=vehicles,
        )
    )


def fill(lake: Lake, *, load: str, first_s: int, last_s: int, devices: int, vehicles: int) -> None:
    """Commit the samples and fixes of a span of seconds since the start."""
    common = COMMON.format(load=load)
    for kind, values in (("usage", USAGE), ("signal", SIGNAL)):
        lake.execute(
            SAMPLES.format(
                kind=kind,
                values=values,
                common=common,
                start=START,
                period=PERIOD_S,
                first=first_s // PERIOD_S,
                last=last_s // PERIOD_S,
                devices=devices,
            )
        )
    lake.execute(
        FIXES.format(
            common=common,
            start=START,
            period=FIX_S,
            first=first_s // FIX_S,
            last=last_s // FIX_S,
            devices=vehicles,
        )
    )
    add_alerts(lake, load=load, first_s=first_s, last_s=last_s, vehicles=vehicles)
    lake.execute(
        FAILOVERS.format(
            common=common,
            start=START,
            first=first_s // 86400,
            last=last_s // 86400,
            devices=vehicles,
        )
    )


@dataclass(frozen=True)
class Cost:
    """The cost of a build: CPU seconds, and peak memory in GB of its two processes, if known."""

    result: BuildResult
    cpu_s: float
    memory_gb: tuple[float, float] | None = None


def build(path: Path, *, is_full: bool) -> Cost:
    """Build in this fresh process, as the command does."""
    prepare_start()
    result = build_marts(path, is_full=is_full)
    own, dbt = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    cpu_s = sum(used.ru_utime + used.ru_stime for used in (own, dbt))
    return Cost(result, cpu_s, (dbt.ru_maxrss / 1e6, own.ru_maxrss / 1e6))


def kept_builds(path: Path, *, from_s: int, devices: int, vehicles: int) -> list[Cost]:
    """Build the live marts after some alerts, several times, then all marts after an hour."""
    prepare_start()
    costs = []
    with DbtProcess() as dbt:
        for number in range(LIVE_BUILDS):
            with open_lake(path) as lake:
                first_s = from_s + number * PERIOD_S
                load = f"push {number}"
                last_s = first_s + PERIOD_S
                add_alerts(lake, load=load, first_s=first_s, last_s=last_s, vehicles=vehicles)
            costs.append(build_kept(path, dbt, is_live=True))
        add_hour(
            path, load="second hour", first_s=from_s + 3600, devices=devices, vehicles=vehicles
        )
        costs.append(build_kept(path, dbt, is_live=False))
    return costs


def build_kept(path: Path, dbt: DbtProcess, *, is_live: bool) -> Cost:
    """Build with a dbt process that may be running already."""
    before = cpu_seconds(dbt)
    result = build_marts(path, is_live=is_live, dbt=dbt)
    return Cost(result, cpu_seconds(dbt) - before)


def add_hour(path: Path, *, load: str, first_s: int, devices: int, vehicles: int) -> None:
    """Commit the samples, fixes and alerts of an hour."""
    with open_lake(path) as lake:
        last_s = first_s + 3600
        fill(lake, load=load, first_s=first_s, last_s=last_s, devices=devices, vehicles=vehicles)


def cpu_seconds(dbt: DbtProcess) -> float:
    """Return the CPU seconds of this process, its ended children and dbt's process."""
    own = sum(sum(resource.getrusage(who)[:2]) for who in CHARGED)
    child = dbt._child  # noqa: SLF001 - nothing else needs to know it
    return own + (sum(psutil.Process(child.pid).cpu_times()[:2]) if child else 0)


def measure(name: str, path: Path, *, is_full: bool = False) -> Cost:
    """Build in a new process, and print and return its cost."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        cost = pool.submit(build, path, is_full=is_full).result()
    show(name, cost)
    return cost


def show(name: str, cost: Cost) -> None:
    """Print the cost of a build, and its slowest steps."""
    result = cost.result
    models = sum(model.seconds for model in result.models)
    tests = sum(test.seconds for test in result.tests)
    line = (
        f"{name}: {result.seconds:.1f} s, of these {models:.1f} s in {len(result.models)} models"
        f" and {tests:.1f} s in {len(result.tests)} tests; {cost.cpu_s:.1f} s of CPU"
    )
    if cost.memory_gb:
        dbt_gb, switch_gb = cost.memory_gb
        line += f"; peak memory {dbt_gb:.2f} GB in dbt, {switch_gb:.2f} GB in the switch"
    print(line)
    slowest = sorted([*result.models, *result.tests], key=lambda step: -step.seconds)[:6]
    print("  slowest: " + ", ".join(f"{s.name} {s.seconds:.1f}" for s in slowest), flush=True)


def main() -> int:
    """Fill, build, add an hour, build it, rebuild everything; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--millions", type=float, default=50, help="usage and signal samples")
    parser.add_argument("--fixes", type=float, default=10, help="millions of location points")
    options = parser.parse_args()
    span = DAYS * 86400
    devices = round(options.millions * 1e6 / 2 / (span / PERIOD_S))
    vehicles = round(options.fixes * 1e6 / (span / FIX_S))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lake"
        with open_lake(path) as lake:
            for day in range(DAYS):
                print(f"\r  day {day + 1} of {DAYS}", end="", file=sys.stderr, flush=True)
                fill(
                    lake,
                    load=f"day {day}",
                    first_s=day * 86400,
                    last_s=(day + 1) * 86400,
                    devices=devices,
                    vehicles=vehicles,
                )
        print(file=sys.stderr)
        print(f"{devices:,} interfaces, {vehicles:,} vehicles, {DAYS} days", flush=True)
        full = measure("full build", path)
        add_hour(path, load="hour", first_s=span, devices=devices, vehicles=vehicles)
        new = measure("one new hour in a new process", path)
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            counts = {"devices": devices, "vehicles": vehicles}
            *live, hour = pool.submit(kept_builds, path, from_s=span + 3600, **counts).result()
        for number, cost in enumerate(live, start=1):
            print(f"live build {number}: {cost.result.seconds:.1f} s, {cost.cpu_s:.1f} s of CPU")
        show("one new hour in the dbt process of the live builds", hour)
        measure("full build over it", path, is_full=True)
    for where, cost in (("a new process", new), ("a kept dbt process", hour)):
        of_seconds = cost.result.seconds / full.result.seconds
        of_cpu = cost.cpu_s / full.cpu_s
        print(
            f"an hour in {where}: {of_cpu:.1%} of a full build's CPU, {of_seconds:.1%} of its time"
        )
    slowest = max(cost.result.seconds for cost in live[1:])
    wait_s = 2 * slowest + max(slowest, REST_SECONDS)
    print(f"an alert waits for its mart for at most {wait_s:.1f} s")
    is_good = new.cpu_s < LARGEST_SHARE * full.cpu_s and wait_s <= LONGEST_WAIT_S
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
