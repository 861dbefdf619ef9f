"""Time full builds and builds of one new hour on a Spark cluster of this machine, and on DuckDB.

`make bench-cluster` runs it; it needs what `make test-cluster` needs. The rows are those of
`make bench-marts`. Each run begins with a copy of the lake. Prints, for DuckDB and for each number
of executors, seconds in all and in the slowest models, the bytes that the executors read, and how
long the mirror took. All executors share this machine's cores and disk.
"""

# ruff: noqa: T201 - it is run for what it prints

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from fleetlake.lake import open_lake
from fleetlake.marts import BuildResult, build_marts
from fleetlake.marts.on_target import BuildTarget
from fleetlake.startup import prepare_start
from tools.bench.marts import DAYS, FIX_S, PERIOD_S, add_hour, fill
from tools.spark_cluster import Cluster, running

SPAN_S = DAYS * 86_400


def bytes_read(log: Path) -> int:
    """Return how many bytes the tasks in Spark's event logs have read from files."""
    total = 0
    for file in log.rglob("*"):
        if file.is_file():
            for line in file.read_text("utf-8").splitlines():
                if '"SparkListenerTaskEnd"' in line:
                    metrics = json.loads(line).get("Task Metrics") or {}
                    total += metrics.get("Input Metrics", {}).get("Bytes Read", 0)
    return total


def show(name: str, result: BuildResult, read: int | None = None) -> None:
    """Print what a build took."""
    slowest = sorted(result.models, key=lambda model: -model.seconds)[:6]
    gigabytes = "" if read is None else f", {read / 1e9:.2f} GB read"
    print(f"{name}: {result.seconds:.0f} s{gigabytes}")
    print("  " + ", ".join(f"{m.name} {m.seconds:.1f}" for m in slowest), flush=True)


def build_twice(name: str, lake: Path, hour: dict[str, int], cluster: Cluster | None) -> None:
    """Build all marts of a lake, and then those of a new hour."""
    target, log = None, None
    if cluster:
        os.environ["SPARK_REMOTE"] = cluster.address
        target, log = BuildTarget("spark", lake.with_name("storage")), cluster.folder / "events"
    before = 0
    for what in ("full build", "one new hour"):
        if what == "one new hour":
            add_hour(lake, load="hour", first_s=SPAN_S, **hour)
        result = build_marts(lake, target=target)
        read = bytes_read(log) if log else None
        show(f"{name}, {what}", result, None if read is None else read - before)
        before = read or 0


def main() -> int:
    """Fill a lake, and build it with each engine; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--millions", type=float, default=8, help="usage and signal samples")
    parser.add_argument("--fixes", type=float, default=2, help="millions of location points")
    parser.add_argument("--executors", type=int, nargs="+", default=[1, 2, 3])
    options = parser.parse_args()
    hour = {
        "devices": round(options.millions * 1e6 / 2 / (SPAN_S / PERIOD_S)),
        "vehicles": round(options.fixes * 1e6 / (SPAN_S / FIX_S)),
    }
    prepare_start()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        with open_lake(folder / "filled") as lake:
            for day in range(DAYS):
                span = {"first_s": day * 86_400, "last_s": (day + 1) * 86_400}
                fill(lake, load=f"day {day}", **span, **hour)
        print(f"{options.millions + options.fixes:g} million rows", flush=True)
        for executors in (0, *options.executors):
            run = folder / f"run-{executors}"
            shutil.copytree(folder / "filled", run / "lake")
            if not executors:
                build_twice("DuckDB", run / "lake", hour, None)
            else:
                with running(sys.executable, run / "spark", executors, events=True) as cluster:
                    name = f"Spark, {executors} executor{'s' * (executors > 1)}"
                    build_twice(name, run / "lake", hour, cluster)
            shutil.rmtree(run)
    return 0


if __name__ == "__main__":
    began = time.monotonic()
    code = main()
    print(f"The bench took {time.monotonic() - began:.0f} s.")
    sys.exit(code)
