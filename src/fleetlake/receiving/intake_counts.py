"""What a receiver counts, and its metrics in Prometheus' text format."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from fleetlake.receiving.journal_table import journal_bytes
from fleetlake.receiving.push_refusals import PushRefusal

BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
"""Upper bounds of the histogram of flushes, in seconds."""


@dataclass
class FlushTimes:
    """A histogram of the seconds that writing and flushing took."""

    buckets: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))
    seconds: float = 0.0

    def observe(self, seconds: float) -> None:
        """Count one flush."""
        self.buckets[bisect_left(BOUNDS, seconds)] += 1
        self.seconds += seconds


@dataclass
class IntakeCounts:
    """Counts since the receiver started."""

    stored: int = 0
    stored_bytes: int = 0
    repeated: int = 0
    refused: Counter[PushRefusal] = field(default_factory=Counter)
    flushes: FlushTimes = field(default_factory=FlushTimes)


@dataclass(frozen=True)
class ReceiverMetric:
    """A metric of the receiver, for the reference."""

    name: str
    kind: str
    labels: str
    about: str


RECEIVER_METRICS = (
    ReceiverMetric(
        "fleetlake_push_messages_total", "counter", "", "Messages stored and answered with 200."
    ),
    ReceiverMetric(
        "fleetlake_push_bytes_total",
        "counter",
        "",
        "Size of the bodies of messages stored and answered with 200.",
    ),
    ReceiverMetric(
        "fleetlake_push_repeats_total",
        "counter",
        "",
        "Messages answered with 200 that were stored shortly before.",
    ),
    ReceiverMetric(
        "fleetlake_push_refusals_total", "counter", "reason", "Requests refused, by reason."
    ),
    ReceiverMetric(
        "fleetlake_push_flush_seconds",
        "histogram",
        "le",
        "Time to commit a group of messages to the journal.",
    ),
    ReceiverMetric(
        "fleetlake_push_journal_bytes",
        "gauge",
        "",
        "Size of the journal's files.",
    ),
    ReceiverMetric(
        "fleetlake_push_drainer_up",
        "gauge",
        "",
        "1 while the process that drains the journal runs; missing with --no-drain.",
    ),
)


def receiver_metrics(counts: IntakeCounts, folder: Path, *, is_draining: bool | None) -> str:
    """Return the metrics of a receiver whose journal is in `folder`."""
    samples: dict[str, Iterator[str]] = {
        "fleetlake_push_messages_total": iter([f" {counts.stored}"]),
        "fleetlake_push_bytes_total": iter([f" {counts.stored_bytes}"]),
        "fleetlake_push_repeats_total": iter([f" {counts.repeated}"]),
        "fleetlake_push_refusals_total": (
            f'{{reason="{reason}"}} {counts.refused[reason]}' for reason in PushRefusal
        ),
        "fleetlake_push_flush_seconds": _histogram(counts.flushes),
        "fleetlake_push_journal_bytes": iter([f" {journal_bytes(folder)}"]),
        "fleetlake_push_drainer_up": iter([] if is_draining is None else [f" {int(is_draining)}"]),
    }
    return "".join(
        f"{line}\n" for metric in RECEIVER_METRICS for line in _lines(metric, samples[metric.name])
    )


def _lines(metric: ReceiverMetric, samples: Iterator[str]) -> Iterator[str]:
    found = [f"{metric.name}{sample}" for sample in samples]
    if found:
        yield f"# HELP {metric.name} {metric.about}"
        yield f"# TYPE {metric.name} {metric.kind}"
        yield from found


def _histogram(times: FlushTimes) -> Iterator[str]:
    total = 0
    for bound, count in zip([*map(str, BOUNDS), "+Inf"], times.buckets, strict=True):
        total += count
        yield f'_bucket{{le="{bound}"}} {total}'
    yield f"_sum {times.seconds!r}"
    yield f"_count {total}"
