"""What the dashboard counts of itself since its start, as Prometheus metrics.

Labels are addresses of pages and codes of answers: no device, no person, no filter.
"""

from datetime import UTC, datetime

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fleetlake.dashboard.open_snapshots import Described
from fleetlake.dashboard.panels import dashboard_pages

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"

BOUNDS = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60)
"""Seconds; a query of a panel may take 10, one of an export 60."""

disable_created_metrics()


class RequestCounts:
    """Counts since the start of the dashboard, and the age of what it shows."""

    def __init__(self) -> None:
        self.registry, self.of_snapshot = CollectorRegistry(), CollectorRegistry()
        self.requests = Counter(
            "fleetlake_dashboard_requests",
            "Requests by page, panels and exports included, and by status; other: no page.",
            ["page", "status"],
            registry=self.registry,
        )
        self.query_seconds = Histogram(
            "fleetlake_dashboard_query_seconds",
            "Time of a query of a panel or an export.",
            buckets=BOUNDS,
            registry=self.registry,
        )
        self._published = Gauge(
            "fleetlake_dashboard_snapshot_age_seconds",
            "Time since the snapshot was published.",
            registry=self.of_snapshot,
        )
        self._newest = Gauge(
            "fleetlake_dashboard_data_age_seconds",
            "Time since the newest event of the snapshot.",
            registry=self.of_snapshot,
        )
        self._rows = Gauge(
            "fleetlake_dashboard_snapshot_rows",
            "Rows of all tables of the snapshot.",
            registry=self.of_snapshot,
        )

    def text(self, shown: Described | None) -> str:
        """Return the metrics in the text format; without a snapshot, those about it are missing."""
        counted = generate_latest(self.registry)
        if shown:
            now = datetime.now(UTC)
            self._published.set((now - shown.published_at).total_seconds())
            self._newest.set((now - shown.as_of).total_seconds())
            self._rows.set(shown.rows)
            counted += generate_latest(self.of_snapshot)
        return counted.decode()


class CountedRequests:
    """Counts each answer, refusals included, by page and status."""

    def __init__(self, app: ASGIApp, *, counts: RequestCounts) -> None:
        self._app = app
        self._requests = counts.requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""

        async def send_counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._requests.labels(_page_of(scope["path"]), str(message["status"])).inc()
            await send(message)

        await self._app(scope, receive, send_counted)


def _page_of(path: str) -> str:
    """Return the page that an address belongs to, so that the values of the label are few."""
    name = path.removeprefix("/api").strip("/").partition("/")[0]
    return name if name in dashboard_pages() else "other"
