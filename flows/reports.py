"""What a run tells: one table and one summary artifact, and events that automations wait for.

Keys and values of resources are text; everything that may be matched on is one of them.
"""

from collections.abc import Sequence
from typing import Any

from prefect.artifacts import create_markdown_artifact, create_table_artifact
from prefect.events import emit_event

from fleetlake.account import stream_name
from fleetlake.lake.maintenance import Maintained
from fleetlake.loading.outcome import Outcome
from fleetlake.loading.verify import Verdict
from fleetlake.marts import BuildResult
from fleetlake.monitoring.status import StreamStatus
from fleetlake.planning.intervals import BEGINNING
from fleetlake.planning.shards import Shard
from fleetlake.publishing.publish import Published
from fleetlake.text.wording import age_in_words, counted
from flows.markdown import as_text, table_of_text
from flows.signals import Look

INGEST_COMPLETED = "fleetlake.ingest.completed"

OCCASIONAL = ("quarantined", "spared", "holes", "note")
"""Columns of an ingest that are worth their place only where they say something."""


def report_ingest(
    group: str, shard: Shard, outcomes: Sequence[Outcome], look: Look, said: Sequence[str]
) -> None:
    """Write the artifacts of an ingest, and send the event that a build waits for.

    `said` is what the run announced besides.
    """
    title = group if shard.is_whole else f"{group}, shard {shard.number} of {shard.of}"
    key = f"ingest-{group}" if shard.is_whole else f"ingest-{group}-{shard.number}-of-{shard.of}"
    rows = [ingest_row(outcome, look) for outcome in outcomes]
    create_table_artifact(
        table_of_text(telling(rows)), key=key, description=f"What was loaded of {title}, by stream"
    )
    create_markdown_artifact(
        ingest_summary(title, rows, said), key=f"{key}-summary", description=f"Load of {title}"
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
            "failed": [o.endpoint for o in outcomes if o.error],
        },
    )


def ingest_row(outcome: Outcome, look: Look) -> dict[str, Any]:
    """Return what a run did to a stream, and where the stream stands now."""
    status = look.stream(outcome.endpoint, outcome.profile)
    return {
        "endpoint": stream_name(outcome.endpoint, outcome.profile),
        "added": outcome.added,
        "changed": outcome.changed,
        "quarantined": outcome.quarantined,
        "calls": outcome.calls,
        "spared": outcome.spared,
        "seconds": round(outcome.seconds, 1),
        "rows": status.rows if status else 0,
        "newest": age_in_words(status.watermark_at if status else None, look.now),
        "holes": status.holes if status else 0,
        "note": ingest_note(outcome, status),
    }


def telling(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows without occasional columns that say nothing: the page cuts off the last ones.

    >>> telling([{"added": 0, "holes": 0, "note": ""}, {"added": 0, "holes": 0, "note": "late"}])
    [{'added': 0, 'note': ''}, {'added': 0, 'note': 'late'}]
    """
    silent = {name for name in OCCASIONAL if not any(row.get(name) for row in rows)}
    return [{name: row[name] for name in row if name not in silent} for row in rows]


def ingest_note(outcome: Outcome, status: StreamStatus | None) -> str:
    """Return what else there is to say of a stream: its error, what it lacks, what it may lose."""
    notes = [outcome.error.what] if outcome.error else []
    if status and status.complete_from not in {None, BEGINNING}:
        notes.append(f"complete from {status.complete_from:%Y-%m-%d %H:%M}")
    if status and status.retention:
        days = status.retention.expires_in.days
        notes.append(f"{status.retention.state}: {counted(days, 'day')} until records expire")
    return "; ".join(notes)


def ingest_summary(title: str, rows: Sequence[dict[str, Any]], said: Sequence[str]) -> str:
    """Return an ingest in a few lines of Markdown."""
    added, changed, refused, calls = (
        sum(row[name] for row in rows) for name in ("added", "changed", "quarantined", "calls")
    )
    longest = max((row["seconds"] for row in rows), default=0.0)
    lines = [
        f"## {title}: {added:,} rows added, {changed:,} changed",
        "",
        f"- {counted(calls, 'call')} for {len(rows)} streams; the longest took {longest:.1f} s",
        f"- {refused:,} records quarantined",
        f"- {sum(row['holes'] for row in rows):,} holes still to be filled",
    ]
    lines += [
        f"- **{as_text(row['endpoint'])}**: {as_text(row['note'])}" for row in rows if row["note"]
    ]
    lines += [f"- {as_text(sentence)}" for sentence in said]
    return "\n".join(lines)


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
    create_table_artifact(table_of_text(table), key="marts", description="Marts of the lake")
    lines = [
        f"## {len(marts)} marts in {result.seconds:.1f} s",
        "",
        f"- snapshot {result.snapshot_id} of the lake",
        f"- {len(result.tests):,} data tests ran",
    ]
    lines += [
        f"- **{as_text(t.name)}** on {as_text(t.model)}: {t.failures:,} rows"
        for t in result.warnings
    ]
    create_markdown_artifact(
        "\n".join(lines), key="marts-summary", description="Build of the marts"
    )


def report_published(done: Published) -> None:
    """Write the artifacts of a published snapshot."""
    table = [
        {"table": name, "rows": rows, "unchanged": name in done.reused}
        for name, rows in done.rows.items()
    ]
    create_table_artifact(table_of_text(table), key="published", description="Published tables")
    create_markdown_artifact(
        f"## Snapshot {done.snapshot}\n\n- {sum(done.rows.values()):,} rows in "
        f"{len(done.rows)} tables, {done.seconds:.1f} s\n- {len(done.reused)} had not changed",
        key="published-summary",
        description="Published snapshot",
    )


def report_maintained(done: Maintained) -> None:
    """Write the summary of a maintenance."""
    create_markdown_artifact(
        f"## {done.files_before:,} data files became {done.files_after:,}\n\n"
        f"- {done.files_written:,} of them written from rows that were in the catalog\n"
        f"- {done.snapshots_expired:,} snapshots forgotten\n"
        f"- {done.files_removed:,} files removed",
        key="maintain-summary",
        description="Maintenance of the lake",
    )


def report_retention(look: Look, at_risk: Sequence[str], news: Sequence[str]) -> None:
    """Write the artifacts of a retention watch: what it warned of, and what else it told."""
    table = [
        {
            "endpoint": stream_name(stream.endpoint, stream.account_profile),
            "state": str(stream.retention.state),
            "hours left": round(stream.retention.expires_in.total_seconds() / 3600, 1),
            "calls to catch up": stream.retention.calls,
            "complete until (UTC)": f"{stream.complete_until:%Y-%m-%d %H:%M}",
        }
        for stream in look.status.streams
        if stream.retention and stream.complete_until
    ]
    create_table_artifact(
        table_of_text(table), key="retention", description="What the service will forget"
    )
    lines = [f"- {as_text(sentence)}" for sentence in at_risk] or ["- nothing is at risk"]
    lines += [f"- {as_text(sentence)}" for sentence in news]
    title = f"## {len(at_risk)} of {len(table)} streams at risk"
    create_markdown_artifact(
        "\n".join([title, "", *lines]),
        key="retention-summary",
        description="Streams that the service may forget before they are read",
    )


def report_verdicts(verdicts: Sequence[Verdict]) -> None:
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
    create_table_artifact(
        table_of_text(table), key="verify", description="Service and lake, key by key"
    )
    missing = sum(len(verdict.missing) for verdict in verdicts)
    lines = [
        f"## {counted(missing, 'record')} missing",
        "",
        f"- {sum(v.served for v in verdicts):,} compared in {len(verdicts)} streams",
    ]
    lines += ["- what was missing has been read again"] if missing else []
    create_markdown_artifact(
        "\n".join(lines), key="verify-summary", description="Service and lake, key by key"
    )
