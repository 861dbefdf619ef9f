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

STREAM = ("profile", "endpoint")
Value = float | int | None
Sample = tuple[tuple[str, ...], Value]
"""The values of a metric's labels, and the metric's value; None leaves the sample out."""


@dataclass(frozen=True, kw_only=True)
class Metric:
    """One metric: its name with the unit, its meaning, its labels and how to read its samples."""

    name: str
    about: str
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
        for metric in METRICS:
            family = metric.kind(metric.name, metric.about, labels=metric.labels)
            for labels, value in metric.samples(self._measured):
                if value is not None:
                    family.add_metric(labels, value)
            if family.samples:
                yield family


def _of_stream(name: str, about: str, read: Callable[[StreamStatus, datetime], Value]) -> Metric:
    """Return a gauge with one sample per stream."""

    def samples(measured: Measured) -> Iterator[Sample]:
        now = measured.figures.measured_at
        for stream in measured.status.streams:
            yield (stream.account_profile, stream.endpoint), read(stream, now)

    return Metric(name=name, about=about, labels=STREAM, samples=samples)


def _of_calls(name: str, about: str, read: Callable[[CallCounts], int]) -> Metric:
    """Return a counter with one sample per stream that was ever requested."""

    def samples(measured: Measured) -> Iterator[Sample]:
        for counts in measured.figures.calls:
            yield (counts.account_profile, counts.endpoint), read(counts)

    return Metric(name=name, about=about, labels=STREAM, samples=samples, kind=CounterMetricFamily)


def _of_build(name: str, about: str, read: Callable[[LastBuild], Value]) -> Metric:
    def samples(measured: Measured) -> list[Sample]:
        build = measured.figures.build
        return [((), read(build))] if build else []

    return Metric(name=name, about=about, labels=(), samples=samples)


def _of_storage(
    name: str, about: str, read: Callable[[Storage], dict[str, Value]], *labels: str
) -> Metric:
    """Return a gauge of the storage; `read` returns a value for each value of the label."""

    def samples(measured: Measured) -> list[Sample]:
        found = read(measured.figures.storage)
        return [((word,) if labels else (), value) for word, value in found.items()]

    return Metric(name=name, about=about, labels=labels, samples=samples)


def _of_pushes(name: str, about: str, read: Callable[[PushStatus], Value]) -> Metric:
    def samples(measured: Measured) -> list[Sample]:
        return [((), read(measured.status.pushes))]

    return Metric(name=name, about=about, labels=(), samples=samples)


def _timestamp(moment: datetime | None) -> float | None:
    return moment.timestamp() if moment else None


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


METRICS = (
    Metric(
        name="fleetlake_info",
        about="The version of fleetlake; always 1.",
        labels=("version",),
        samples=lambda _: [((version("fleetlake"),), 1)],
    ),
    Metric(
        name="fleetlake_measured_timestamp_seconds",
        about="When these figures were read from the lake.",
        labels=(),
        samples=lambda measured: [((), _timestamp(measured.figures.measured_at))],
    ),
    _of_stream("fleetlake_stream_rows", "Rows in the raw table.", lambda s, _: s.rows),
    _of_stream(
        "fleetlake_stream_loaded_timestamp_seconds",
        "When the stream was last loaded.",
        lambda s, _: _timestamp(s.loaded_at),
    ),
    _of_stream(
        "fleetlake_stream_complete_until_timestamp_seconds",
        "The time up to which the stream is proven complete; for event streams only.",
        lambda s, _: _timestamp(s.complete_until),
    ),
    _of_stream(
        "fleetlake_stream_lag_seconds",
        "Seconds since the time up to which the stream is proven complete; for a list that is "
        "read whole, since its last load.",
        _lag,
    ),
    Metric(
        name="fleetlake_stream_expected_interval_seconds",
        about="Seconds between two scheduled loads, from prefect.yaml, or the freshness of a list "
        "that is read device by device if that is longer; a day for a list that is read only from "
        "devices that moved, because others are swept daily.",
        labels=STREAM,
        samples=_intervals,
    ),
    Metric(
        name="fleetlake_rows_changed_timestamp_seconds",
        about="When a load last changed rows.",
        labels=(),
        samples=lambda measured: [((), _timestamp(measured.changed_at))],
    ),
    _of_stream(
        "fleetlake_stream_retention_hours",
        "Hours until the service deletes the oldest unread record; negative if it has.",
        _retention_hours,
    ),
    _of_stream(
        "fleetlake_stream_holes",
        "Unproven ranges between the oldest and the newest proven time.",
        lambda s, _: s.holes,
    ),
    Metric(
        name="fleetlake_stream_open_gaps",
        about="Lost ranges that are not acknowledged.",
        labels=STREAM,
        samples=_open_gaps,
    ),
    _of_stream(
        "fleetlake_stream_quarantined_records",
        "Records that could not be stored and wait in quarantine.",
        lambda s, _: s.quarantined,
    ),
    _of_stream(
        "fleetlake_stream_absent_records",
        "Records missing from a list that shrank too much to be trusted.",
        lambda s, _: s.absent,
    ),
    _of_stream(
        "fleetlake_stream_unknown_members",
        "Members of records that have no column yet.",
        lambda s, _: s.drifted,
    ),
    _of_stream(
        "fleetlake_stream_unavailable",
        "1 if the account may not read the endpoint.",
        lambda s, _: int(bool(s.unavailable)),
    ),
    _of_calls(
        "fleetlake_calls_total", "Requests made, retries included.", lambda counts: counts.calls
    ),
    _of_calls(
        "fleetlake_refusals_total",
        "Responses that refused a call because of the call limit.",
        lambda counts: counts.refusals,
    ),
    _of_calls(
        "fleetlake_retries_total",
        "Requests sent again after an error.",
        lambda counts: counts.retries,
    ),
    _of_calls(
        "fleetlake_spared_calls_total",
        "Requests not made because pushes bring the records, at least.",
        lambda counts: counts.spared,
    ),
    _of_build(
        "fleetlake_build_timestamp_seconds",
        "When the last build that computed something ended.",
        lambda build: _timestamp(build.built_at),
    ),
    _of_build(
        "fleetlake_build_duration_seconds",
        "Duration of the last build.",
        lambda build: build.seconds,
    ),
    _of_build(
        "fleetlake_build_success",
        "1 if the last build succeeded; otherwise some marts keep their earlier rows.",
        lambda build: int(build.is_good),
    ),
    _of_build(
        "fleetlake_build_failed_tests",
        "Data tests of the last build that failed or could not run.",
        lambda build: build.failed_tests,
    ),
    _of_build(
        "fleetlake_build_warned_tests",
        "Data tests of the last build that found bad rows in the service's data.",
        lambda build: build.warned_tests,
    ),
    Metric(
        name="fleetlake_marts_stale",
        about="Marts that keep earlier rows because their last build failed.",
        labels=(),
        samples=lambda measured: [((), len(measured.status.stale_marts))],
    ),
    Metric(
        name="fleetlake_published_timestamp_seconds",
        about="When marts were last published.",
        labels=(),
        samples=lambda measured: [((), _timestamp(measured.published_at))],
    ),
    _of_storage(
        "fleetlake_files",
        "Files of the newest snapshot; delete files mark deleted rows of data files.",
        lambda storage: {"data": storage.data_files, "delete": storage.delete_files},
        "kind",
    ),
    _of_storage(
        "fleetlake_file_bytes",
        "Size of the files of the newest snapshot.",
        lambda storage: {"data": storage.data_bytes, "delete": storage.delete_bytes},
        "kind",
    ),
    _of_storage(
        "fleetlake_catalog_bytes",
        "Size of the catalog with its log, for a lake in a folder.",
        lambda storage: {"": storage.catalog_bytes},
    ),
    _of_storage(
        "fleetlake_disk_free_bytes",
        "Free space on the disk of the lake's files.",
        lambda storage: {"": storage.disk_free_bytes},
    ),
    _of_pushes(
        "fleetlake_pushed_alerts",
        "Pushed alerts in the lake; retention and erasure delete some.",
        lambda pushes: pushes.alerts,
    ),
    _of_pushes(
        "fleetlake_pushed_alert_timestamp_seconds",
        "When the last push was received, Unix time.",
        lambda pushes: _timestamp(pushes.received_at),
    ),
    _of_pushes(
        "fleetlake_unconfirmed_pushes",
        "Alerts pushed over an hour ago that no poll has read.",
        lambda pushes: pushes.unconfirmed,
    ),
    _of_pushes(
        "fleetlake_unpushed_alerts",
        "Polled alerts of the last day, since the first push, that were not pushed.",
        lambda pushes: pushes.unpushed,
    ),
    _of_pushes(
        "fleetlake_push_dead_letters",
        "Pushed messages or alerts in them that could not be read.",
        lambda pushes: pushes.dead_letters,
    ),
    _of_pushes(
        "fleetlake_push_waiting_messages",
        "Messages in the journal of this machine that are not in the lake yet.",
        lambda pushes: pushes.waiting_messages,
    ),
    _of_pushes(
        "fleetlake_push_waiting_bytes",
        "Size of the messages in the journal of this machine that are not in the lake yet.",
        lambda pushes: pushes.waiting_bytes,
    ),
    Metric(
        name="fleetlake_push_destinations",
        about="Push destinations by delivery state, as of their last load: active, "
        "unreachable, suspended or disabled.",
        labels=("profile", "state"),
        samples=_destinations,
    ),
    Metric(
        name="fleetlake_events_total",
        about="Entries of the audit trail (fleetlake records events list).",
        labels=("kind",),
        samples=_events,
        kind=CounterMetricFamily,
    ),
)
"""Every metric, in the order of the output."""
