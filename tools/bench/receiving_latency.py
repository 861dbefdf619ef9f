"""How long an alert takes from its push until a query sees it, on a lake with many alerts."""

import asyncio
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from fleetlake.decoding.records import MAX_RECORDS
from fleetlake.lake import open_lake
from fleetlake.receiving.drain import drain_all
from tests.support.alert_messages import NOON, an_alert, poll, push, with_id
from tests.support.receivers import ReceiverProcess, receivers
from tools.bench.receiving_sender import Sender, number_of, percentile

EARLIER = timedelta(days=30)
LOOK_SECONDS = 0.05
LONE_SECONDS, LONE_RATE = 90.0, 0.35  # further apart than two commits
BUSY_SECONDS, BUSY_RATE = 30.0, 100.0
LONGEST_WAIT = 60.0

Figures = dict[str, float]


def fill(lake: Path, alerts: int) -> None:
    """Fill a lake with alerts of the last 30 days, each of them pushed and polled."""
    newest = (datetime.now(UTC) - NOON).total_seconds() - 60
    each = EARLIER.total_seconds() / alerts
    made = [
        an_alert(number, seconds=newest - number * each, router=number % 10_000 + 1)
        for number in range(alerts)
    ]
    journal = lake.parent / "earlier-journal"
    push(journal, *map(with_id, made), at=datetime.now(UTC))
    drain_all(lake, journal)
    with open_lake(lake) as opened:
        for first in range(0, alerts, MAX_RECORDS):
            poll(opened, made[first : first + MAX_RECORDS])


class Watcher:
    """A second connection to the lake that asks again and again which pushes are there.

    `seen_at` is when each number was first seen (monotonic seconds).
    """

    def __init__(self, lake: Path) -> None:
        self._lake = lake
        self.seen_at: dict[int, float] = {}
        self.stop = threading.Event()

    def run(self) -> None:
        """Ask until `stop` is set."""
        since = datetime.now(UTC)
        with open_lake(self._lake, read_only=True) as opened:
            while not self.stop.wait(LOOK_SECONDS):
                found = opened.rows(
                    "select push_id from raw.pushed_alerts where received_at >= ?", [since]
                )
                now = time.monotonic()
                for (push_id,) in found:
                    self.seen_at.setdefault(number_of(push_id), now)


@contextmanager
def watching(lake: Path) -> Iterator[Watcher]:
    """Watch a lake in a thread until the block ends."""
    watcher = Watcher(lake)
    thread = threading.Thread(target=watcher.run)
    thread.start()
    try:
        yield watcher
    finally:
        watcher.stop.set()
        thread.join()


def latencies(folder: Path, alerts: int) -> Iterator[tuple[str, Figures]]:
    """Yield the seconds from push to select: of lone alerts, and of many."""
    lake = folder / "lake"
    fill(lake, alerts)
    with receivers(folder, [folder / "journals"]) as [receiver]:
        yield (
            f"of lone alerts, in a lake of {alerts:,}",
            _measured(receiver, lake, LONE_SECONDS, LONE_RATE, first=2**28),
        )
        yield (
            f"of {BUSY_RATE:g} alerts a second",
            _measured(receiver, lake, BUSY_SECONDS, BUSY_RATE, first=2**29),
        )
        assert receiver.stop() == 0


def _measured(
    receiver: ReceiverProcess, lake: Path, seconds: float, rate: float, *, first: int
) -> Figures:
    until = time.monotonic() + seconds
    sender = Sender(receiver.port, receiver.secret, until=until, first=first, rate=rate)
    with watching(lake) as watcher:
        asyncio.run(sender.run_all(4))
        _wait(sender, watcher)
    found = [watcher.seen_at[number] - sent for number, sent in sender.sent_at.items()]
    return {
        "alerts": len(found),
        "median_s": round(statistics.median(found), 2),
        "p99_s": round(percentile(found, 0.99), 2),
        "slowest_s": round(max(found), 2),
    }


def _wait(sender: Sender, watcher: Watcher) -> None:
    """Wait until the lake shows everything that was sent."""
    until = time.monotonic() + LONGEST_WAIT
    while not sender.sent_at.keys() <= watcher.seen_at.keys():
        assert time.monotonic() < until, "a pushed alert does not come into the lake"
        time.sleep(LOOK_SECONDS)
