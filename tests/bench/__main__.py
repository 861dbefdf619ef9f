"""`make bench`: fleetlake beside other ways to take the same pages, measured in one run.

The rounds are interleaved, so that a machine that is busy for a while is busy for all; ratios
hold better than seconds. Each measured thing is a process of its own, its CPU time and peak
memory taken from the kernel when it has ended.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import httpx
from rich.console import Console
from rich.table import Table

from tests.bench.peers import PEERS

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
FLEET = {"routers": "18000", "days": "60", "now": "2026-06-15T12:00:00Z", "speed": "0"}


@dataclass(frozen=True, kw_only=True)
class Case:
    """Records of one resource, and how long each answer takes."""

    resource: str
    records: int
    latency_ms: int
    concurrency: int
    peers: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"{self.records:,} {self.resource}, {self.latency_ms} ms an answer"


CASES = (
    Case(resource="alerts", records=500_000, latency_ms=0, concurrency=8, peers=tuple(PEERS)),
    Case(
        resource="activity_logs", records=200_000, latency_ms=0, concurrency=8, peers=tuple(PEERS)
    ),
    Case(resource="alerts", records=100_000, latency_ms=100, concurrency=32, peers=("socket",)),
)


@dataclass(frozen=True, kw_only=True)
class Measure:
    """What one process took."""

    cpu_seconds: float
    wall_seconds: float
    peak_mb: float
    calls: int


@contextmanager
def ready(*command: str) -> Iterator[str]:
    """Run a server that says `ready URL`; yield the address."""
    with subprocess.Popen(
        [sys.executable, "-m", *command], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().removeprefix("ready ").strip()
        finally:
            process.kill()


def write_records(case: Case, path: Path) -> None:
    """Take the records from the simulator, which knows all that ever were."""
    options = [part for name, value in FLEET.items() for part in (f"--{name}", value)]
    with ready("fleetlake.simulator", "--port", "0", *options) as url, path.open("wb") as file:
        address = f"{url}/sim/truth/{case.resource}"
        with httpx.stream("GET", address, timeout=600) as answer:
            for number, line in enumerate(answer.iter_lines()):
                if number == case.records:
                    return
                file.write(line.encode() + b"\n")
    raise SystemExit(f"The simulated fleet has fewer than {case.records:,} {case.resource}.")


def measure(url: str, *words: str, **environment: str) -> Measure:
    """Run a command to its end and return what it took."""
    httpx.get(f"{url}/calls")
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", *words],
        env=os.environ | environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, used = os.wait4(process.pid, 0)
    wall = time.perf_counter() - began
    if status:
        raise SystemExit(f"{' '.join(words)} ended with status {status}.")
    return Measure(
        cpu_seconds=used.ru_utime + used.ru_stime,
        wall_seconds=wall,
        peak_mb=used.ru_maxrss / 1024,
        calls=int(httpx.get(f"{url}/calls").text),
    )


def settings(url: str, folder: str, case: Case) -> dict[str, str]:
    """Return the environment of an ingest into a new lake."""
    keys = ("PORTAL_API_ID", "PORTAL_API_KEY", "MGR_API_ID", "MGR_API_KEY")
    return {
        "FLEETLAKE_BASE_URL": f"{url}/api/v2/",
        "FLEETLAKE_LAKE": f"{folder}/lake",
        "FLEETLAKE_STATE": f"{folder}/state",
        "FLEETLAKE_CALLS_PER_MINUTE": "0",
        "FLEETLAKE_CONCURRENCY": str(case.concurrency),
        **{f"FLEETLAKE_{key}": "bench" for key in keys},
    }


def run(case: Case, records: Path) -> dict[str, list[Measure]]:
    """Return what each way took, round by round."""
    taken: dict[str, list[Measure]] = {}
    latency = str(case.latency_ms)
    with ready("tests.bench.page_server", str(records), case.resource, latency) as url:
        for _ in range(ROUNDS):
            for peer in case.peers:
                found = measure(url, "tests.bench.peers", peer, url, case.resource)
                taken.setdefault(peer, []).append(found)
            with tempfile.TemporaryDirectory() as folder:
                own = settings(url, folder, case)
                ingest = ("fleetlake", "ingest", case.resource)
                taken.setdefault("fleetlake ingest", []).append(measure(url, *ingest, **own))
                again = measure(url, *ingest, **own)
                taken.setdefault("fleetlake ingest, nothing new", []).append(again)
    return taken


def show(case: Case, taken: dict[str, list[Measure]]) -> None:
    """Print one table: medians, and CPU against fleetlake's first load."""
    table = Table(title=case.name, title_justify="left")
    for column in ("", "CPU s", "least", "most", "wall s", "peak MB", "calls", "CPU ratio"):
        table.add_column(column, justify="right" if column else "left", no_wrap=True)
    own = statistics.median(m.cpu_seconds for m in taken["fleetlake ingest"])
    for name, measures in taken.items():
        cpu = [m.cpu_seconds for m in measures]
        table.add_row(
            name,
            f"{statistics.median(cpu):.2f}",
            f"{min(cpu):.2f}",
            f"{max(cpu):.2f}",
            f"{statistics.median(m.wall_seconds for m in measures):.2f}",
            f"{max(m.peak_mb for m in measures):.0f}",
            f"{measures[-1].calls:,}",
            f"{statistics.median(cpu) / own:.2f}",
        )
    Console(width=100).print(table)


def main() -> None:
    """Measure every case, print the tables, and keep the figures as JSON."""
    figures = {}
    with tempfile.TemporaryDirectory() as folder:
        for number, case in enumerate(CASES):
            records = Path(folder) / f"{number}.ndjson"
            write_records(case, records)
            taken = run(case, records)
            show(case, taken)
            figures[case.name] = {n: [asdict(m) for m in found] for n, found in taken.items()}
    target = Path("data/bench.json")
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps(figures, indent=2))
    sys.stdout.write(f"All figures are in {target}.\n")


if __name__ == "__main__":
    main()
