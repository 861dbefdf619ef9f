"""The speed of the receiver: durable intake, and the way of an alert into the lake.

python -m tools.bench.receiving [--seconds 10] [--connections 32] [--rate 0]

Everything is in a temporary folder of the project's disk, so that flushes are real. With `--rate`,
a receiver with its drainer gets so many messages a second, and their memory is shown (a soak).
`make bench-receive` runs it.
"""

import argparse
import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.support.journals import read
from tests.support.processes import command, environment
from tests.support.pushing import SECRET
from tools.bench.receiving_latency import latencies
from tools.bench.receiving_sender import Sender, cpu_seconds, memory_mb, percentile
from tools.bench.receiving_soak import soaked

TARGET_PER_SECOND = 2000


@dataclass(frozen=True, kw_only=True)
class Intake:
    """What a run showed. Seconds of CPU are the receiver's own."""

    connections: int
    messages: int
    seconds: float
    per_second: float
    cpu_seconds_per_1000: float
    median_ms: float
    p99_ms: float
    first_mb: float
    last_mb: float


def measured(folder: Path, connections: int, seconds: float) -> Intake:
    """Run a receiver without a lake and push to it as fast as it answers.

    Fails if the journal lacks a message that got 200.
    """
    env = environment(folder, push_journal=folder / "journal", push_secrets=SECRET)
    words = ["receive", "--port", "0", "--no-drain", "--no-access-log"]
    with subprocess.Popen(command(*words), env=env, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            port = int(process.stdout.readline().rpartition(":")[2])
            asyncio.run(_sender(port, min(1.0, seconds), first=0).run_all(1))  # warm up
            first_mb, before = memory_mb(process.pid), cpu_seconds(process.pid)
            sender = _sender(port, seconds, first=1_000_000)
            asyncio.run(sender.run_all(connections))
            cpu, last_mb = cpu_seconds(process.pid) - before, memory_mb(process.pid)
        finally:
            process.terminate()
            process.wait(30)
    times = [*sender.milliseconds.values()]
    in_journal = count_stored(folder / "journal")
    assert in_journal >= len(times), f"{len(times)} messages got 200, {in_journal} are stored"
    return Intake(
        connections=connections,
        messages=len(times),
        seconds=seconds,
        per_second=round(len(times) / seconds),
        cpu_seconds_per_1000=round(cpu / len(times) * 1000, 3),
        median_ms=round(statistics.median(times), 2),
        p99_ms=round(percentile(times, 0.99), 2),
        first_mb=round(first_mb, 1),
        last_mb=round(last_mb, 1),
    )


def _sender(port: int, seconds: float, *, first: int) -> Sender:
    return Sender(port, SECRET, until=time.monotonic() + seconds, first=first, rate=0)


def count_stored(folder: Path) -> int:
    """Return how many messages a journal holds; none may be missing."""
    batch = read(folder)
    assert batch.losses == []
    return len(batch.messages)


def show(title: str, figures: Mapping[str, object]) -> None:
    """Print figures under a title."""
    lines = [f"{title}\n", *(f"  {name:<24}{value:>12,}\n" for name, value in figures.items())]
    sys.stdout.writelines(lines)
    sys.stdout.flush()


def main() -> None:
    """Print the figures; fail below the target unless the rate is limited."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--rate", type=float, default=0.0)
    parser.add_argument("--alerts", type=int, default=100_000, help="in the lake beforehand")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=Path.cwd() / "data") as name:
        if options.rate:
            found = soaked(Path(name), options.seconds, options.rate)
            show(f"{options.rate:g} messages a second, into the lake", found)
            return
        intake = measured(Path(name), options.connections, options.seconds)
        show("durable intake, as fast as it answers", asdict(intake))
        for title, figures in latencies(Path(name), options.alerts):
            show(f"from the push to a select, {title}", figures)
    if intake.per_second < TARGET_PER_SECOND:
        sys.exit(f"The target is {TARGET_PER_SECOND} messages per second.")


if __name__ == "__main__":
    main()
