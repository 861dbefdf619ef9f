"""A receiver and its drainer under a steady load: memory, CPU, and what the journal keeps."""

import asyncio
import contextlib
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from fleetlake.lake import open_lake
from fleetlake.receiving.journal_table import journal_bytes
from tests.support.comparison import wait_until_drained
from tests.support.receivers import ReceiverProcess, receivers
from tools.bench.receiving_sender import Sender, cpu_seconds, memory_mb, percentile

REPORT_SECONDS = 30.0
CONNECTIONS = 4
WARM_UP_SECONDS = 20.0
"""Enough for as many messages as a receiver remembers."""


@dataclass
class Watched:
    """What was seen every half minute: memory of both processes and the journal's files, in MB."""

    receiver_mb: list[float] = field(default_factory=list)
    drainer_mb: list[float] = field(default_factory=list)
    journal_mb: list[float] = field(default_factory=list)

    def look(self, pid: int, drainer: int, journal: Path) -> None:
        """Note and print what is so now."""
        self.receiver_mb.append(round(memory_mb(pid), 1))
        self.drainer_mb.append(round(memory_mb(drainer), 1))
        self.journal_mb.append(round(journal_bytes(journal) / 1e6, 2))
        sys.stdout.write(
            f"receiver {self.receiver_mb[-1]:.1f} MB, drainer {self.drainer_mb[-1]:.1f} MB, "
            f"journal {self.journal_mb[-1]:.2f} MB\n"
        )
        sys.stdout.flush()


async def _watch(look: Callable[[], None]) -> None:
    while True:
        await asyncio.sleep(REPORT_SECONDS)
        look()


def soaked(folder: Path, seconds: float, rate: float) -> dict[str, float]:
    """Push at a rate for some time; return memory at start, middle and end, and what it cost.

    Fails if the lake lacks a message, or if drained messages stay.
    """
    journals, lake = folder / "journals", folder / "lake"
    with open_lake(lake):  # creates it
        pass
    with receivers(folder, [journals]) as [receiver]:
        warm_up = _push(receiver, min(WARM_UP_SECONDS, seconds), 0, first=0)
        asyncio.run(warm_up.run_all(CONNECTIONS))
        wait_until_drained(lake, [journals])
        drainer = receiver.drainer()
        assert drainer is not None
        watched = Watched()
        watched.look(receiver.pid, drainer, journals)
        before = [cpu_seconds(pid) for pid in (receiver.pid, drainer)]
        sender = _push(receiver, seconds, rate, first=2**28)
        looking = partial(watched.look, receiver.pid, drainer, journals)
        asyncio.run(_watched(sender, looking))
        wait_until_drained(lake, [journals])
        watched.look(receiver.pid, drainer, journals)
        after = [cpu_seconds(pid) for pid in (receiver.pid, drainer)]
        assert receiver.drainer() == drainer, "the drainer was started again"
        assert receiver.stop() == 0
    with open_lake(lake, read_only=True) as opened:
        [(rows,)] = opened.rows("select count(*) from raw.pushed_alerts where router_id > 0")
        [(commits,)] = opened.rows("select count(*) from meta.loads")
    assert rows >= len(sender.milliseconds), f"{rows} of {len(sender.milliseconds)} are in the lake"
    assert watched.journal_mb[-1] < 1, "drained messages stay"
    return _figures(sender, watched, before, after, seconds) | {"commits": commits}


def _push(receiver: ReceiverProcess, seconds: float, rate: float, *, first: int) -> Sender:
    until = time.monotonic() + seconds
    return Sender(receiver.port, receiver.secret, until=until, first=first, rate=rate)


async def _watched(sender: Sender, look: Callable[[], None]) -> None:
    watching = asyncio.create_task(_watch(look))
    await sender.run_all(CONNECTIONS)
    watching.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await watching


def _figures(
    sender: Sender, watched: Watched, before: list[float], after: list[float], seconds: float
) -> dict[str, float]:
    times = [*sender.milliseconds.values()]
    cpu = [later - earlier for earlier, later in zip(before, after, strict=True)]
    found: dict[str, float] = {
        "messages": len(times),
        "per_second": round(len(times) / seconds, 1),
        "p99_ms": round(percentile(times, 0.99), 2),
    }
    for name, used, memory in zip(
        ("receiver", "drainer"), cpu, (watched.receiver_mb, watched.drainer_mb), strict=True
    ):
        found |= {
            f"{name}_start_mb": memory[0],
            f"{name}_middle_mb": memory[len(memory) // 2],
            f"{name}_end_mb": memory[-1],
            f"{name}_most_mb": max(memory),
            f"{name}_cpu_pct": round(100 * used / seconds, 1),
        }
    return found | {
        "journal_most_mb": max(watched.journal_mb),
        "journal_end_mb": watched.journal_mb[-1],
    }
