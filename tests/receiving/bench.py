"""The speed of durable intake: signed pushes over 32 connections. `make bench-receive`.

python -m tests.receiving.bench [--seconds 10] [--connections 32] [--rate 0]

The receiver is a process of its own, with its journal in a temporary folder of the project's disk,
so that flushes are real. The sender is cheap on purpose: it writes bytes to raw sockets. With
`--rate`, messages per second are limited and memory is shown every ten seconds (a soak).
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from fleetlake.receiving.journal_reader import START, journals
from tests.processes import command
from tests.receiving.journals import read
from tests.receiving.pushing import SECRET, signature

TICKS = os.sysconf("SC_CLK_TCK")
TARGET_PER_SECOND = 1000
REPORT_SECONDS = 10.0


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


def request(number: int) -> bytes:
    """Return one push as bytes: a typical alert of 400 bytes, each another one."""
    body = json.dumps(
        {
            "type": "failover_event",
            "router": number,
            "account": 10157,
            "created_at_timeuuid": f"{number:08x}-0000-11f1-8080-808080808080",
            "created_at": "2026-06-15T12:00:00+00:00",
            "detected_at": "2026-06-15T11:59:58+00:00",
            "friendly_info": f"The router {number} failed over from Ethernet to LTE.",
            "info": {"from": "ethernet-wan", "to": "mdm-1d2f3a", "reason": "link down" * 8},
        }
    ).encode()
    head = (
        f"POST /push HTTP/1.1\r\nHost: localhost\r\nX-PORTAL-Signature: {signature(body)}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


class Sender:
    """Sends pushes over any number of connections, each with one at a time, until a time."""

    def __init__(self, port: int, until: float, rate: float) -> None:
        self.port, self.until, self.rate = port, until, rate
        self.began = time.monotonic()
        self.sent = 0
        self.milliseconds: list[float] = []

    async def run(self) -> None:
        """Use one connection until the time is over."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        while time.monotonic() < self.until:
            number = self.sent
            self.sent += 1
            if self.rate:
                await asyncio.sleep(max(0.0, self.began + number / self.rate - time.monotonic()))
            message = request(number)
            began = time.perf_counter()
            writer.write(message)
            answer = await reader.readuntil(b"stored\n")
            self.milliseconds.append((time.perf_counter() - began) * 1000)
            assert answer.startswith(b"HTTP/1.1 200 OK"), answer
        writer.close()


def cpu_seconds(pid: int) -> float:
    """Return the CPU time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def memory_mb(pid: int) -> float:
    """Return the memory of a process, without what it shares with others, in MB."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    raise ValueError(f"process {pid} tells nothing of its memory")


async def watch(pid: int, found: list[float]) -> None:
    """Note and print the memory of the receiver every ten seconds."""
    while True:
        found.append(memory_mb(pid))
        sys.stdout.write(f"memory {found[-1]:.1f} MB\n")
        sys.stdout.flush()
        await asyncio.sleep(REPORT_SECONDS)


async def push(port: int, pid: int, options: argparse.Namespace) -> tuple[Sender, list[float]]:
    """Push over all connections; return what was sent, and the memory meanwhile."""
    await Sender(port, time.monotonic() + min(1.0, options.seconds), 0).run()  # warm up
    memory: list[float] = [memory_mb(pid)]
    sender = Sender(port, time.monotonic() + options.seconds, options.rate)
    sender.sent = 1_000_000  # other messages than those of the warm-up
    sender.began -= sender.sent / options.rate if options.rate else 0
    watching = asyncio.create_task(watch(pid, memory)) if options.rate else None
    await asyncio.gather(*(sender.run() for _ in range(options.connections)))
    if watching:
        watching.cancel()
    memory.append(memory_mb(pid))
    return sender, memory


def measured(folder: Path, options: argparse.Namespace) -> Intake:
    """Run a receiver and push to it. Fails if the journal lacks a message that got 200."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("FLEETLAKE_")}
    env |= {
        "FLEETLAKE_PUSH_SECRETS": SECRET,
        "FLEETLAKE_PUSH_SECRETS_FILE": str(folder / "none"),
        "FLEETLAKE_PUSH_JOURNAL": str(folder / "journal"),
    }
    words = ["receive", "--port", "0", "--no-drain", "--no-access-log"]
    with subprocess.Popen(command(*words), env=env, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            port = int(process.stdout.readline().rpartition(":")[2])
            before = cpu_seconds(process.pid)
            sender, memory = asyncio.run(push(port, process.pid, options))
            cpu = cpu_seconds(process.pid) - before
        finally:
            process.terminate()
            process.wait(30)
    times = sorted(sender.milliseconds)
    in_journal = count_stored(folder / "journal")
    assert in_journal >= len(times), f"{len(times)} messages got 200, {in_journal} are stored"
    return Intake(
        connections=options.connections,
        messages=len(times),
        seconds=options.seconds,
        per_second=round(len(times) / options.seconds),
        cpu_seconds_per_1000=round(cpu / in_journal * 1000, 3),
        median_ms=round(statistics.median(times), 2),
        p99_ms=round(times[int(len(times) * 0.99)], 2),
        first_mb=round(memory[0], 1),
        last_mb=round(memory[-1], 1),
    )


def count_stored(folder: Path) -> int:
    """Return how many messages the journals hold."""
    total = 0
    for path in journals(folder).values():
        position = START
        while (batch := read(path, position, limit=5000)).messages:
            assert batch.damage == []
            total, position = total + len(batch.messages), batch.until
    return total


def main() -> None:
    """Print the figures; fail below the target unless the rate is limited."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--rate", type=float, default=0.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=Path.cwd() / "data") as folder:
        found = measured(Path(folder), options)
    for name, value in asdict(found).items():
        sys.stdout.write(f"{name:<22}{value:>12,}\n")
    if not options.rate and found.per_second < TARGET_PER_SECOND:
        sys.exit(f"The target is {TARGET_PER_SECOND} messages per second.")


if __name__ == "__main__":
    main()
