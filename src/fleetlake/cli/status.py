"""`fleetlake status`: how far each stream is read."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from datetime import datetime

    from fleetlake.status import StreamStatus

COLUMNS = ("endpoint", "rows", "newest event", "last load", "complete from", "holes", "notes")


def status(
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Show rows, newest event, holes, retention and quarantine of every stream.

    `complete from` says since when every record that the service showed is in the lake. Ends
    with exit code 9 while a lost range is not acknowledged (see `fleetlake gaps`).
    """
    from dataclasses import asdict
    from datetime import UTC, datetime

    import orjson

    from fleetlake.cli.screen import console, table
    from fleetlake.errors import RecordsMissing
    from fleetlake.lake import open_lake
    from fleetlake.settings import load_settings
    from fleetlake.status import lake_status

    settings, now = load_settings(), datetime.now(UTC)
    with open_lake(settings.lake, read_only=True) as lake:
        found = lake_status(lake, now=now, calls_per_minute=settings.calls_per_minute)
    if as_json:
        option = orjson.OPT_INDENT_2 | orjson.OPT_UTC_Z
        document = orjson.dumps(asdict(found), option=option, default=lambda d: d.total_seconds())
        sys.stdout.write(document.decode() + "\n")
    else:
        by_account: dict[str, list[StreamStatus]] = {}
        for stream in found.streams:
            by_account.setdefault(stream.account_profile, []).append(stream)
        for profile, streams in by_account.items():
            title = f"profile {profile}" if len(by_account) > 1 else ""
            console().print(table(title, COLUMNS, [_row(stream, now) for stream in streams]))
        if not any(stream.loaded_at for stream in found.streams):
            console().print("Nothing loaded yet: run `fleetlake ingest`.")
    if found.open_gaps:
        raise RecordsMissing(
            f"The service forgot {len(found.open_gaps):,} ranges before they were read.",
            remedy="`fleetlake gaps` lists them; `fleetlake gaps --acknowledge` ends this error.",
        )


def _row(stream: "StreamStatus", now: "datetime") -> tuple[object, ...]:
    from fleetlake.spoken import spoken_age, spoken_start

    newest = f"{stream.watermark_at:%Y-%m-%d %H:%M:%S}" if stream.watermark_at else ""
    loaded = spoken_age(stream.loaded_at, now)
    start = spoken_start(stream.complete_from)
    notes = "; ".join(_notes(stream))
    return stream.endpoint, stream.rows, newest, loaded, start, stream.holes, notes


def _notes(stream: "StreamStatus") -> list[str]:
    """Return what a person should know beyond the numbers."""
    notes = []
    if stream.unavailable:
        notes.append("this account may not read it")
    if stream.retention:
        hours = stream.retention.expires_in.total_seconds() / 3600
        notes.append(f"retention {stream.retention.state}: {hours:,.0f} h left")
    if stream.quarantined:
        notes.append(f"{stream.quarantined:,} in quarantine")
    if stream.drifted:
        notes.append(f"{stream.drifted:,} members without a column")
    return notes
