"""What a run tells: one table and one summary artifact, and events that automations wait for.

Keys and values of resources are text; everything that may be matched on is one of them.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from prefect.artifacts import create_markdown_artifact, create_table_artifact
from prefect.events import emit_event

from fleetlake.endpoints import ENDPOINTS
from fleetlake.marts import BuildResult
from fleetlake.publish import Published
from fleetlake.run import Outcome
from fleetlake.status import StreamStatus, spoken_age, spoken_start

INGEST_COMPLETED = "fleetlake.ingest.completed"
QUARANTINE_GREW = "fleetlake.quarantine.grew"


def report_ingest(
    group: str, outcomes: Sequence[Outcome], statuses: Sequence[StreamStatus]
) -> None:
    """Write the artifacts of an ingest and send its events."""
    rows = ingest_rows(outcomes, statuses)
    create_table_artifact(rows, key=f"ingest-{group}", description=f"Streams of {group}")
    create_markdown_artifact(ingest_summary(group, rows), key=f"ingest-{group}-summary")
    for outcome in outcomes:
        if outcome.quarantined:
            emit_event(
                QUARANTINE_GREW,
                resource=_endpoint_resource(outcome.endpoint),
                payload={"endpoint": outcome.endpoint, "records": outcome.quarantined},
            )
    changed = sum(o.added + o.changed for o in outcomes)
    emit_event(
        INGEST_COMPLETED,
        resource={
            "prefect.resource.id": f"fleetlake.group.{group}",
            "prefect.resource.name": str(group),
            "fleetlake.has-changed": str(changed > 0).lower(),
        },
        payload={
            "group": str(group),
            "added": sum(o.added for o in outcomes),
            "changed": sum(o.changed for o in outcomes),
            "calls": sum(o.calls for o in outcomes),
            "failed": [o.endpoint for o in outcomes if o.error and o.error.exit_code],
        },
    )


def ingest_rows(
    outcomes: Sequence[Outcome], statuses: Sequence[StreamStatus]
) -> list[dict[str, Any]]:
    """Return a row per stream: what this run did, and where the stream stands now."""
    by_name = {status.endpoint: status for status in statuses}
    # A simulated service may run ahead of this machine: its newest instant counts as now.
    marks = [s.watermark_at for s in statuses if s.watermark_at]
    now = max([datetime.now(UTC), *marks])
    return [_ingest_row(outcome, by_name[outcome.endpoint], now) for outcome in outcomes]


def _ingest_row(outcome: Outcome, status: StreamStatus, now: datetime) -> dict[str, Any]:
    retention = ENDPOINTS[outcome.endpoint].retention
    return {
        "endpoint": outcome.endpoint,
        "added": outcome.added,
        "changed": outcome.changed,
        "quarantined": outcome.quarantined,
        "calls": outcome.calls,
        "seconds": round(outcome.seconds, 1),
        "rows": status.rows,
        "newest": spoken_age(status.watermark_at, now),
        "complete from": spoken_start(status.complete_from),
        "holes": status.holes,
        "kept by the service": f"{retention.days} d" if retention else "",
        "note": outcome.error.what if outcome.error else "",
    }


def ingest_summary(group: str, rows: Sequence[dict[str, Any]]) -> str:
    """Return an ingest in a few lines of Markdown."""
    added, changed, refused, calls = (
        sum(row[name] for row in rows) for name in ("added", "changed", "quarantined", "calls")
    )
    longest = max((row["seconds"] for row in rows), default=0.0)
    lines = [
        f"## {group}: {added:,} rows added, {changed:,} changed",
        "",
        f"- {calls:,} calls for {len(rows)} streams; the longest took {longest:.1f} s",
        f"- {refused:,} records quarantined",
        f"- {sum(row['holes'] for row in rows):,} holes still to be filled",
    ]
    lines += [f"- **{row['endpoint']}**: {row['note']}" for row in rows if row["note"]]
    return "\n".join(lines)


def outcome_line(outcome: Outcome) -> str:
    """Return how one stream went, as a log line."""
    if outcome.error:
        return f"{outcome.endpoint}: {outcome.error.what}"
    return (
        f"{outcome.endpoint}: {outcome.added:,} added, {outcome.changed:,} changed, "
        f"{outcome.quarantined:,} quarantined, {outcome.calls:,} calls, {outcome.seconds:.1f} s"
    )


def report_build(result: BuildResult) -> None:
    """Write the artifacts of a build."""
    marts = [model for model in result.models if model.rows is not None]
    table = [
        {
            "mart": model.name,
            "rows": model.rows,
            "seconds": round(model.seconds, 2),
            "tests passed": model.tests_passed,
            "tests warned": model.tests_warned,
        }
        for model in marts
    ]
    create_table_artifact(table, key="marts", description="Marts of the lake")
    lines = [
        f"## {len(marts)} marts in {result.seconds:.1f} s",
        "",
        f"- snapshot {result.snapshot_id} of the lake",
        f"- {len(result.tests):,} data tests ran",
    ]
    lines += [f"- **{t.name}** on {t.model}: {t.failures:,} rows" for t in result.warnings]
    create_markdown_artifact("\n".join(lines), key="marts-summary")


def report_published(done: Published) -> None:
    """Write the artifacts of a published snapshot."""
    table = [
        {"table": name, "rows": rows, "linked from before": name in done.reused}
        for name, rows in done.rows.items()
    ]
    create_table_artifact(table, key="published", description="Published tables")
    create_markdown_artifact(
        f"## Snapshot {done.snapshot}\n\n- {sum(done.rows.values()):,} rows in "
        f"{len(done.rows)} tables, {done.seconds:.1f} s\n- {len(done.reused)} had not changed",
        key="published-summary",
    )


def _endpoint_resource(endpoint: str) -> dict[str, str]:
    return {
        "prefect.resource.id": f"fleetlake.endpoint.{endpoint}",
        "prefect.resource.name": endpoint,
    }
