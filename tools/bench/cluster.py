"""Time full builds and builds of one new hour on a Spark cluster of this machine, and on DuckDB.

`make bench-cluster` runs it; it needs what `make test-cluster` needs. The rows are those of
`make bench-marts`. Each run begins with a copy of the lake. Prints, for DuckDB and for each number
of executors, seconds in all and in the slowest models, and the rows that the executors read: bytes
of made-up rows say little, since they are small. All executors share this machine's cores and disk.
"""

# ruff: noqa: T201 - it is run for what it prints

import argparse
import json
import os
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from fleetlake.lake import open_lake
from fleetlake.marts import BuildResult, build_marts
from fleetlake.marts.on_target import BuildTarget
from fleetlake.startup import prepare_start
from tools.bench.marts import DAYS, FIX_S, PERIOD_S, add_hour, fill
from tools.spark_cluster import Cluster, running

SPAN_S = DAYS * 86_400
SHOWN = 10

_WRITES = re.compile(
    r"Execute InsertIntoHadoopFsRelationCommand\nInput[^\n]*\nArguments: \S*/tables/\w+/(\w+)/"
)
"""In a plan of Spark: the table that it writes."""


def rows_read(log: Path) -> Counter[str]:
    """Return how many rows Spark's tasks have read from files, by the table that they wrote.

    Those of data tests, and of queries that write nothing, are under the empty name.
    """
    tables: dict[str, str] = {}
    executions: dict[int, str] = {}
    found: Counter[str] = Counter()
    for file in log.rglob("events_*"):
        for line in file.read_text("utf-8").splitlines():
            if "SparkListenerSQLExecutionStart" in line:
                event = json.loads(line)
                if written := _WRITES.search(event["physicalPlanDescription"]):
                    tables[str(event["executionId"])] = written[1]
            elif "SparkListenerJobStart" in line:
                event = json.loads(line)
                execution = event["Properties"].get("spark.sql.execution.id", "")
                executions |= dict.fromkeys(event["Stage IDs"], execution)
            elif "SparkListenerTaskEnd" in line:
                event = json.loads(line)
                metrics = event.get("Task Metrics") or {}
                table = tables.get(executions.get(event["Stage ID"], ""), "")
                found[table] += metrics.get("Input Metrics", {}).get("Records Read", 0)
    return found


def show(name: str, result: BuildResult, read: Counter[str] | None = None) -> None:
    """Print what a build took, in all and of its slowest models."""
    total = "" if read is None else f", {read.total() / 1e6:,.1f} million rows read"
    print(f"{name}: {result.seconds:.0f} s{total}")
    for model in sorted(result.models, key=lambda model: -model.seconds)[:SHOWN]:
        own = "" if read is None else f", {read[model.name] / 1e6:,.1f}"
        print(f"  {model.name}: {model.seconds:.1f} s{own}", flush=True)


def build_twice(name: str, lake: Path, hour: dict[str, int], cluster: Cluster | None) -> None:
    """Build all marts of a lake, and then those of a new hour."""
    target, log = None, None
    if cluster:
        os.environ["SPARK_REMOTE"] = cluster.address
        target, log = BuildTarget("spark", lake.with_name("storage")), cluster.folder / "events"
    before: Counter[str] = Counter()
    for what in ("full build", "one new hour"):
        if what == "one new hour":
            add_hour(lake, load="hour", first_s=SPAN_S, **hour)
        result = build_marts(lake, target=target)
        read = rows_read(log) if log else None
        show(f"{name}, {what}", result, None if read is None else read - before)
        before = read or before


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
                with running(sys.executable, run / "spark", executors, is_measured=True) as cluster:
                    name = f"Spark, {executors} executor{'s' * (executors > 1)}"
                    build_twice(name, run / "lake", hour, cluster)
            shutil.rmtree(run)
    return 0


if __name__ == "__main__":
    began = time.monotonic()
    code = main()
    print(f"The bench took {time.monotonic() - began:.0f} s.")
    sys.exit(code)
