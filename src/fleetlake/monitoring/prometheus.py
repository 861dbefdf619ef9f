"""The figures of a lake as Prometheus metrics: what each is called, and how it is read.

Labels are account profiles, endpoints and fixed words, never a device's name or id, so that their
number stays small and nothing private leaves the lake.

Nothing here is written after each commit. The lag of a stream would be zero in such a file, and
it would stay zero once loads stop, which is when it matters. A timer runs `fleetlake metrics`
instead, whether loads run or not.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import version

from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from fleetlake.lake.audit_trail import EventKind
from fleetlake.monitoring.figures import CallCounts, LastBuild, Measured, Storage
from fleetlake.monitoring.push_status import PushStatus, push_counts
from fleetlake.monitoring.streams import StreamStatus
from fleetlake.text.tables_beside import rows_beside

MEANINGS = {row["metric"]: row["about"] for row in rows_beside(__file__, "metrics.csv")}
"""What each metric means, in the order of the output."""
STREAM = ("profile", "endpoint")
Value = float | datetime | None
"""A time is given in seconds since 1970."""
Sample = tuple[tuple[str, ...], Value]
"""The values of a metric's labels, and its value; None leaves the sample out."""


@dataclass(frozen=True)
class MetricRead:
    """How the samples of a metric are read, and their labels."""

    labels: tuple[str, ...]
    samples: Callable[[Measured], Iterable[Sample]]
    kind: type[GaugeMetricFamily | CounterMetricFamily] = GaugeMetricFamily


def metrics_text(measured: Measured) -> str:
    """Return all metrics in Prometheus' text format."""
    return generate_latest(_Figures(measured)).decode()


class _Figures(Collector):
    """The metrics that have samples."""

    def __init__(self, measured: Measured) -> None:
        self._measured = measured

    def collect(self) -> Iterator[GaugeMetricFamily | CounterMetricFamily]:
        for name, about in MEANINGS.items():
            read = METRICS[name]
            family = read.kind(name, about, labels=read.labels)
            for labels, value in read.samples(self._measured):
                number = value.timestamp() if isinstance(value, datetime) else value
                if number is not None:
                    family.add_metric(labels, number)
            if family.samples:
                yield family


def _of_stream(read: Callable[[StreamStatus, datetime], Value]) -> MetricRead:
    """Read one sample per stream."""

    def samples(measured: Measured) -> Iterator[Sample]:
        now = measured.figures.measured_at
        for stream in measured.status.streams:
            yield (stream.account_profile, stream.endpoint), read(stream, now)

    return MetricRead(STREAM, samples)


def _of_calls(read: Callable[[CallCounts], int]) -> MetricRead:
    """Read a counter with one sample per stream that was ever requested."""

    def samples(measured: Measured) -> Iterator[Sample]:
        for counts in measured.figures.calls:
            yield (counts.account_profile, counts.endpoint), read(counts)

    return MetricRead(STREAM, samples, kind=CounterMetricFamily)


def _of_build(read: Callable[[LastBuild], Value]) -> MetricRead:
    return _once(lambda measured: read(measured.figures.build) if measured.figures.build else None)


def _of_storage(read: Callable[[Storage], dict[str, Value]], *labels: str) -> MetricRead:
    """Read the storage; `read` returns a value for each value of the label."""

    def samples(measured: Measured) -> list[Sample]:
        found = read(measured.figures.storage)
        return [((word,) if labels else (), value) for word, value in found.items()]

    return MetricRead(labels, samples)


def _of_pushes(read: Callable[[PushStatus], Value]) -> MetricRead:
    return _once(lambda measured: read(measured.status.pushes))


def _once(read: Callable[[Measured], Value]) -> MetricRead:
    """Read one sample without labels."""
    return MetricRead((), lambda measured: [((), read(measured))])


def _lag(stream: StreamStatus, now: datetime) -> float | None:
    known = stream.complete_until or stream.loaded_at
    return max(0.0, (now - known).total_seconds()) if known else None


def _retention_hours(stream: StreamStatus, _: datetime) -> float | None:
    return stream.retention.expires_in.total_seconds() / 3600 if stream.retention else None


def _open_gaps(measured: Measured) -> Iterator[Sample]:
    lost = [(gap.account_profile, gap.endpoint) for gap in measured.status.open_gaps]
    for stream in measured.status.streams:
        name = (stream.account_profile, stream.endpoint)
        yield name, lost.count(name)


def _intervals(measured: Measured) -> Iterator[Sample]:
    for stream in measured.status.streams:
        interval = measured.load_intervals.get(stream.endpoint)
        yield (stream.account_profile, stream.endpoint), interval


def _events(measured: Measured) -> Iterator[Sample]:
    """Yield a count for each kind; those of a later release count together, as `other`."""
    found = measured.figures.events
    known = {str(kind) for kind in EventKind}
    yield from (((kind,), found.get(kind, 0)) for kind in sorted(known))
    yield ("other",), sum(count for kind, count in found.items() if kind not in known)


def _destinations(measured: Measured) -> Iterator[Sample]:
    yield from push_counts(measured.status.push_destinations).items()


METRICS: dict[str, MetricRead] = {
    "fleetlake_info": MetricRead(("version",), lambda _: [((version("fleetlake"),), 1)]),
    "fleetlake_measured_timestamp_seconds": _once(lambda measured: measured.figures.measured_at),
    "fleetlake_stream_rows": _of_stream(lambda s, _: s.rows),
    "fleetlake_stream_loaded_timestamp_seconds": _of_stream(lambda s, _: s.loaded_at),
    "fleetlake_stream_complete_until_timestamp_seconds": _of_stream(lambda s, _: s.complete_until),
    "fleetlake_stream_lag_seconds": _of_stream(_lag),
    "fleetlake_stream_expected_interval_seconds": MetricRead(STREAM, _intervals),
    "fleetlake_rows_changed_timestamp_seconds": _once(lambda measured: measured.changed_at),
    "fleetlake_stream_retention_hours": _of_stream(_retention_hours),
    "fleetlake_stream_holes": _of_stream(lambda s, _: s.holes),
    "fleetlake_stream_open_gaps": MetricRead(STREAM, _open_gaps),
    "fleetlake_stream_quarantined_records": _of_stream(lambda s, _: s.quarantined),
    "fleetlake_stream_absent_records": _of_stream(lambda s, _: s.absent),
    "fleetlake_stream_unknown_members": _of_stream(lambda s, _: s.drifted),
    "fleetlake_stream_unavailable": _of_stream(lambda s, _: int(bool(s.unavailable))),
    "fleetlake_calls_total": _of_calls(lambda counts: counts.calls),
    "fleetlake_refusals_total": _of_calls(lambda counts: counts.refusals),
    "fleetlake_retries_total": _of_calls(lambda counts: counts.retries),
    "fleetlake_spared_calls_total": _of_calls(lambda counts: counts.spared),
    "fleetlake_build_timestamp_seconds": _of_build(lambda build: build.built_at),
    "fleetlake_build_duration_seconds": _of_build(lambda build: build.seconds),
    "fleetlake_build_success": _of_build(lambda build: int(build.is_good)),
    "fleetlake_build_failed_tests": _of_build(lambda build: build.failed_tests),
    "fleetlake_build_warned_tests": _of_build(lambda build: build.warned_tests),
    "fleetlake_marts_stale": _once(lambda measured: len(measured.status.stale_marts)),
    "fleetlake_published_timestamp_seconds": _once(lambda measured: measured.published_at),
    "fleetlake_files": _of_storage(
        lambda storage: {"data": storage.data_files, "delete": storage.delete_files}, "kind"
    ),
    "fleetlake_file_bytes": _of_storage(
        lambda storage: {"data": storage.data_bytes, "delete": storage.delete_bytes}, "kind"
    ),
    "fleetlake_catalog_bytes": _of_storage(lambda storage: {"": storage.catalog_bytes}),
    "fleetlake_disk_free_bytes": _of_storage(lambda storage: {"": storage.disk_free_bytes}),
    "fleetlake_pushed_alerts": _of_pushes(lambda pushes: pushes.alerts),
    "fleetlake_pushed_alert_timestamp_seconds": _of_pushes(lambda pushes: pushes.received_at),
    "fleetlake_unconfirmed_pushes": _of_pushes(lambda pushes: pushes.unconfirmed),
    "fleetlake_unpushed_alerts": _of_pushes(lambda pushes: pushes.unpushed),
    "fleetlake_push_dead_letters": _of_pushes(lambda pushes: pushes.dead_letters),
    "fleetlake_push_waiting_messages": _of_pushes(lambda pushes: pushes.waiting_messages),
    "fleetlake_push_waiting_bytes": _of_pushes(lambda pushes: pushes.waiting_bytes),
    "fleetlake_push_destinations": MetricRead(("profile", "state"), _destinations),
    "fleetlake_events_total": MetricRead(("kind",), _events, kind=CounterMetricFamily),
}
