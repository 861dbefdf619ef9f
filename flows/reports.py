"""What a run reports: a table artifact, a summary artifact, and events for automations.

Keys and values of an event's resource are text. Automations can match on nothing else, so
everything worth matching is among them.
"""

from collections.abc import Sequence
from typing import Any

from prefect.artifacts import create_markdown_artifact, create_table_artifact
from prefect.events import emit_event

from fleetlake.account import stream_name
from fleetlake.care.maintenance import Maintained
from fleetlake.loading.outcome import Outcome
from fleetlake.loading.verify import Comparison
from fleetlake.marts import BuildResult
from fleetlake.monitoring.streams import StreamStatus
from fleetlake.planning.intervals import BEGINNING
from fleetlake.planning.shards import Shard
from fleetlake.publishing.publish import Published
from fleetlake.receiving.drain import Drained
from fleetlake.text.wording import age_in_words, counted
from flows.markdown import as_text, table_of_text
from flows.signals import LakeState

INGEST_COMPLETED = "fleetlake.ingest.completed"

OPTIONAL_COLUMNS = ("quarantined", "skipped", "holes", "note")
"""Columns of an ingest report that are left out when they are empty in every row."""


def report_ingest(
    group: str, shard: Shard, outcomes: Sequence[Outcome], state: LakeState, messages: Sequence[str]
) -> None:
    """Write the artifacts of an ingest, and send the event that may start a build.

    `messages` are the findings that the run announced.
    """
    title = group if shard.is_whole else f"{group}, shard {shard.number} of {shard.of}"
    key = f"ingest-{group}" if shard.is_whole else f"ingest-{group}-{shard.number}-of-{shard.of}"
    rows = [ingest_row(outcome, state) for outcome in outcomes]
    _write(
        key, f"Load of {title}", ingest_summary(title, rows, messages), without_empty_columns(rows)
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
            "spared": sum(o.spared for o in outcomes),
            "failed": [o.endpoint for o in outcomes if o.error],
        },
    )


def _write(
    key: str, about: str, lines: Sequence[str], table: Sequence[dict[str, Any]] | None = None
) -> None:
    """Write an artifact with a table, if there is one, and one with the lines of a summary."""
    if table is not None:
        create_table_artifact(table_of_text(table), key=key, description=about)
    create_markdown_artifact("\n".join(lines), key=f"{key}-summary", description=about)


def report_pushes(drained: Drained, announced: int) -> None:
    """Write the summary of a run that drains journals."""
    lines = [
        f"## {counted(drained.messages, 'pushed message')}",
        "",
        f"- {counted(drained.alerts, 'new alert')} in the lake, {announced:,} announced",
        f"- {counted(drained.dead_letters, 'dead letter')}",
    ]
    _write("pushes", "Pushed messages brought into the lake", lines)


def ingest_row(outcome: Outcome, state: LakeState) -> dict[str, Any]:
    """Return what a run did to a stream, and the stream's status after it."""
    status = state.stream(outcome.endpoint, outcome.profile)
    return {
        "endpoint": stream_name(outcome.endpoint, outcome.profile),
        "added": outcome.added,
        "changed": outcome.changed,
        "quarantined": outcome.quarantined,
        "calls": outcome.calls,
        "skipped": outcome.skipped,
        "seconds": round(outcome.seconds, 1),
        "rows": status.rows if status else 0,
        "newest": age_in_words(status.watermark_at if status else None, state.now),
        "holes": status.holes if status else 0,
        "note": ingest_note(outcome, status),
    }


def without_empty_columns(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows without optional columns that are empty: Prefect's page cuts off wide tables.

    >>> without_empty_columns([{"added": 0, "holes": 0, "note": "late"}])
    [{'added': 0, 'note': 'late'}]
    """
    empty = {name for name in OPTIONAL_COLUMNS if not any(row.get(name) for row in rows)}
    return [{name: row[name] for name in row if name not in empty} for row in rows]


def ingest_note(outcome: Outcome, status: StreamStatus | None) -> str:
    """Return notes on a stream: its error, since when it is complete, what it may lose."""
    notes = [outcome.error.what] if outcome.error else []
    if outcome.spared:
        notes.append("not due because pushes bring it")
    if status and status.complete_from not in {None, BEGINNING}:
        notes.append(f"complete from {status.complete_from:%Y-%m-%d %H:%M}")
    if status and status.retention:
        days = status.retention.expires_in.days
        notes.append(f"{status.retention.state}: {counted(days, 'day')} until records expire")
    return "; ".join(notes)


def ingest_summary(
    title: str, rows: Sequence[dict[str, Any]], messages: Sequence[str]
) -> list[str]:
    """Return the summary of an ingest as a few lines of Markdown."""
    added, changed, refused, calls = (
        sum(row[name] for row in rows) for name in ("added", "changed", "quarantined", "calls")
    )
    longest = max((row["seconds"] for row in rows), default=0.0)
    made = f"{counted(calls, 'call')} for {counted(len(rows), 'stream')}"
    lines = [
        f"## {title}: {added:,} rows added, {changed:,} changed",
        "",
        f"- {made}; the longest took {longest:.1f} s",
        f"- {counted(refused, 'record')} quarantined",
        f"- {counted(sum(row['holes'] for row in rows), 'hole')} left to fill",
    ]
    lines += [
        f"- **{as_text(row['endpoint'])}**: {as_text(row['note'])}" for row in rows if row["note"]
    ]
    return lines + [f"- {as_text(message)}" for message in messages]


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
    lines = [
        f"## {len(marts)} marts in {result.seconds:.1f} s",
        "",
        f"- snapshot {result.snapshot_id} of the lake",
        f"- {len(result.tests):,} data tests ran",
    ]
    lines += [
        f"- **{as_text(name)}** left the lake: its model was removed" for name in result.dropped
    ]
    lines += [
        f"- **{as_text(t.name)}** on {as_text(t.model)}: {counted(t.failures, 'row')}"
        for t in result.warnings
    ]
    _write("marts", "Build of the marts", lines, table)


def report_published(done: Published) -> None:
    """Write the artifacts of a published snapshot."""
    table = [
        {"table": name, "rows": rows, "unchanged": name in done.reused}
        for name, rows in done.rows.items()
    ]
    lines = [
        f"## Snapshot {done.snapshot}",
        "",
        f"- {sum(done.rows.values()):,} rows in {len(done.rows)} tables, {done.seconds:.1f} s",
        f"- {len(done.reused)} had not changed",
    ]
    _write("published", "Published snapshot", lines, table)


def report_maintained(done: Maintained) -> None:
    """Write the summary of a maintenance."""
    lines = [
        f"## {done.files_before:,} data files became {done.files_after:,}",
        "",
        f"- {done.files_written:,} of them written from rows stored in the catalog",
        f"- {counted(done.snapshots_expired, 'snapshot')} expired",
        f"- {counted(done.files_removed, 'file')} removed",
    ]
    _write("maintain", "Maintenance of the lake", lines)


def report_retention(state: LakeState, at_risk: Sequence[str], findings: Sequence[str]) -> None:
    """Write the artifacts of a retention watch: its warnings, and the findings it announced."""
    table = [
        {
            "endpoint": stream_name(stream.endpoint, stream.account_profile),
            "state": str(stream.retention.state),
            "hours left": round(stream.retention.expires_in.total_seconds() / 3600, 1),
            "calls to catch up": stream.retention.calls,
            "complete until (UTC)": f"{stream.complete_until:%Y-%m-%d %H:%M}",
        }
        for stream in state.status.streams
        if stream.retention and stream.complete_until
    ]
    lines = [f"## {len(at_risk)} of {len(table)} streams at risk", ""]
    lines += [f"- {as_text(message)}" for message in at_risk] or ["- nothing is at risk"]
    lines += [f"- {as_text(message)}" for message in findings]
    _write("retention", "Streams whose records may expire before they are read", lines, table)


def report_verdicts(verdicts: Sequence[Comparison]) -> None:
    """Write the artifacts of a comparison of service and lake."""
    table = [
        {
            "endpoint": verdict.endpoint,
            "served": verdict.served,
            "missing": len(verdict.missing),
            "in the lake only": len(verdict.surplus),
            "calls": verdict.calls,
        }
        for verdict in verdicts
    ]
    missing = sum(len(verdict.missing) for verdict in verdicts)
    lines = [
        f"## {counted(missing, 'record')} missing",
        "",
        f"- {sum(v.served for v in verdicts):,} compared in {len(verdicts)} streams",
    ]
    lines += ["- the missing records have been read again"] if missing else []
    _write("verify", "Service and lake compared by key", lines, table)
