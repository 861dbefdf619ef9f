"""What a receiver counts, as Prometheus metrics."""

from pathlib import Path

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)

from fleetlake.receiving.journal_table import journal_bytes
from fleetlake.receiving.push_refusals import PushRefusal

BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
"""Upper bounds of the histogram of flushes, in seconds."""

disable_created_metrics()


class IntakeCounts:
    """Counts since the receiver started."""

    def __init__(self) -> None:
        self.registry = kept = CollectorRegistry()
        self.stored = Counter(
            "fleetlake_push_messages", "Messages stored and answered with 200.", registry=kept
        )
        self.stored_bytes = Counter(
            "fleetlake_push_bytes",
            "Size of the bodies of messages stored and answered with 200.",
            registry=kept,
        )
        self.repeated = Counter(
            "fleetlake_push_repeats",
            "Messages answered with 200 that were stored shortly before.",
            registry=kept,
        )
        self.refused = Counter(
            "fleetlake_push_refusals", "Requests refused, by reason.", ["reason"], registry=kept
        )
        for reason in PushRefusal:
            self.refused.labels(reason)
        self.flushes = Histogram(
            "fleetlake_push_flush_seconds",
            "Time to commit a group of messages to the journal.",
            buckets=BOUNDS,
            registry=kept,
        )
        self._journal = Gauge(
            "fleetlake_push_journal_bytes", "Size of the journal's files.", registry=kept
        )
        self.drainer = Gauge(
            "fleetlake_push_drainer_up",
            "1 while the process that drains the journal runs; missing with --no-drain.",
            registry=None,
        )

    def text(self, folder: Path, *, is_draining: bool | None) -> str:
        """Return the metrics of a receiver whose journal is in `folder`, in the text format."""
        self._journal.set(journal_bytes(folder))
        self.drainer.set(bool(is_draining))
        drainer = b"" if is_draining is None else generate_latest(self.drainer)
        return (generate_latest(self.registry) + drainer).decode()
