"""`fleetlake status`: is anything missing, and how far is each stream read?"""

import math
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import groupby
from typing import TYPE_CHECKING, Annotated

import typer

from fleetlake.cli.command_group import say_instead
from fleetlake.cli.formats import FormatOption, OutputFormat, print_document, print_records
from fleetlake.cli.screen import console, table
from fleetlake.endpoints import ENDPOINTS, NOT_DESCRIBED
from fleetlake.errors import RecordsMissing
from fleetlake.text.wording import age_in_words, counted

if TYPE_CHECKING:
    from fleetlake.monitoring.status import LakeStatus
    from fleetlake.monitoring.streams import StreamStatus

COLUMNS = ("endpoint", "rows", "newest event", "last load")
STREAM_FIELDS = (
    *("account_profile", "endpoint", "rows", "watermark_at", "loaded_at"),
    *("complete_from", "complete_until", "holes", "quarantined", "drifted"),
    *("absent", "unavailable"),
)
RETENTION_FIELDS = ("state", "expires_in")
CSV_COLUMNS = (*STREAM_FIELDS, "retention_state", "retention_expires_in_s")
STALE_AFTER = timedelta(days=2)
"""All schedules load at least daily, so a stream this far behind fails or was left out."""


def status(
    *,
    output: FormatOption = OutputFormat.TABLE,
    as_json: Annotated[
        bool, typer.Option("--json", hidden=True, help="Old: `--format json`.")
    ] = False,
) -> None:
    """Report what is missing and what to do about it, then each stream.

    A stream holds every record that the service listed since the stream's beginning, unless a line
    below the table gives a later start. Ends with exit code 9 while a lost range is not
    acknowledged (see `fleetlake records gaps`).
    """
    from dataclasses import asdict, replace

    from fleetlake.endpoints.relations import freshness_of
    from fleetlake.lake import open_lake
    from fleetlake.lake_address import DEMO_MARK
    from fleetlake.monitoring.status import lake_status
    from fleetlake.monitoring.streams import lake_now
    from fleetlake.settings import load_settings

    if as_json:
        say_instead("fleetlake status --json", "fleetlake status --format json")
        output = OutputFormat.JSON
    settings = load_settings()
    freshness_of(settings.freshness)  # before anything is printed
    with open_lake(settings.lake, read_only=True) as lake:
        now = lake_now(lake, settings.clock)
        if output is OutputFormat.JSON:
            from fleetlake.monitoring.figures import measure

            measured = measure(lake, settings)
            found = measured.status
        else:
            found = lake_status(
                lake,
                now=now,
                calls_per_minute=settings.calls_per_minute,
                journal=settings.push_journal,
            )
    if output is OutputFormat.TABLE:
        if (settings.lake / DEMO_MARK).exists():  # its service, and what it pushes to, have ended
            found = replace(found, push_destinations=[])
        _print_report(found, now)
    elif output is OutputFormat.JSON:
        print_document({**asdict(found), "figures": asdict(measured.figures)})
    else:
        _print_csv(found)
    if found.open_gaps:
        raise RecordsMissing(
            f"The service deleted {counted(len(found.open_gaps), 'range')} of records before "
            "they were read.",
            remedy="`fleetlake records gaps` shows what was lost; "
            "`fleetlake records gaps acknowledge` ends this error.",
        )


def _print_csv(found: "LakeStatus") -> None:
    """Print the streams alone, one per line."""
    rows = [
        [getattr(stream, field) for field in STREAM_FIELDS]
        + [getattr(stream.retention, field, None) for field in RETENTION_FIELDS]
        for stream in found.streams
    ]
    print_records(OutputFormat.CSV, CSV_COLUMNS, rows)


def _print_report(found: "LakeStatus", now: datetime) -> None:
    from fleetlake.monitoring.push_status import push_notes

    screen = console()
    for line in summary_lines(found, now):
        screen.print(line)
    accounts = groupby(found.streams, key=lambda stream: stream.account_profile)
    by_account = {profile: list(streams) for profile, streams in accounts}
    for profile, streams in by_account.items():
        title = f"profile {profile}" if len(by_account) > 1 else ""
        screen.print(table(title, COLUMNS, [_row(stream, now) for stream in streams]))
    for stream in found.streams:
        for note in _notes(stream):
            screen.print(f"{stream.name}: {note}.")
    pushes = (*push_lines(found, now), *push_notes(found.push_destinations))
    for line in (*pushes, *event_lines(found)):
        screen.print(line)


def summary_lines(found: "LakeStatus", now: datetime) -> Iterator[str]:
    """Yield the first lines of the report: nothing is missing, or what to do about what is."""
    loaded = [stream.loaded_at for stream in found.streams if stream.loaded_at]
    if not loaded:
        is_begun = any(stream.rows for stream in found.streams)
        state = "Only partly loaded so far" if is_begun else "Nothing loaded yet"
        yield f"{state}: run `fleetlake ingest`."
        return
    age = age_in_words(max(loaded), now)
    rows = f"{sum(s.rows for s in found.streams):,} rows in {counted(len(loaded), 'stream')}"
    faults = [
        f"{stream.name} is only partly loaded: `fleetlake ingest` loads the rest."
        for stream in found.streams
        if stream.rows and not (stream.loaded_at or stream.unavailable)
    ]
    faults += _faults(found, max(loaded), now)
    if faults:
        yield f"{counted(len(faults), 'problem')} found; the last load was {age}: {rows}."
        yield from (f"- {fault}" for fault in faults)
    else:
        yield f"Nothing is missing up to the last load, {age}: {rows}."
    never = sum(
        not (stream.loaded_at or stream.unavailable or stream.rows) for stream in found.streams
    )
    if never:
        yield f"Never loaded: {counted(never, 'stream')}; `fleetlake ingest` loads all."


def _faults(found: "LakeStatus", last_load: datetime, now: datetime) -> Iterator[str]:
    from fleetlake.account import stream_name
    from fleetlake.monitoring.push_status import push_faults
    from fleetlake.monitoring.streams import stream_faults
    from fleetlake.planning.retention import RetentionState
    from fleetlake.receiving.push_secrets import misnamed_signature
    from fleetlake.settings import load_settings

    for lost in sorted({stream_name(gap.endpoint, gap.account_profile) for gap in found.open_gaps}):
        yield f"{lost} lost records that the service deleted unread: see `fleetlake records gaps`."
    yield from push_faults(found.push_destinations)
    if note := misnamed_signature(load_settings()):
        yield f"{note.what} {note.remedy}"
    for one in found.stale_marts:
        since = age_in_words(one.since_at, now)
        yield f"The mart {one.mart} is stale, first {since}: run `fleetlake build`, which says why."
    for table_name in found.not_described:
        yield f"raw.{table_name} is no longer loaded: {NOT_DESCRIBED}."
    for stream in found.streams:
        name, load = stream.name, stream.load
        if stream.retention and stream.retention.state is not RetentionState.OK:
            yield f"{name} is {stream.retention.state}: {load}."
        if _is_stale(stream, last_load):
            yield f"{name} was last loaded {age_in_words(stream.loaded_at, now)}: {load}."
        yield from stream_faults(stream, now)
    if found.pushes.dead_letters:
        letters = counted(found.pushes.dead_letters, "pushed message")
        yield f"{letters} could not be read: see `fleetlake records quarantine`."


def push_lines(found: "LakeStatus", now: datetime) -> Iterator[str]:
    """Yield what is known about pushed alerts, if there are any, and how they match the polls."""
    from fleetlake.monitoring.push_status import waiting_line

    pushes = found.pushes
    if pushes.alerts:
        age = age_in_words(pushes.received_at, now)
        yield f"{counted(pushes.alerts, 'alert')} came by push, the last {age}."
    if pushes.unconfirmed:
        late = counted(pushes.unconfirmed, "pushed alert")
        yield f"{late} not read by a poll within an hour: check that loads run."
    if pushes.unpushed:
        unpushed = counted(pushes.unpushed, "alert")
        yield f"{unpushed} of the last day not pushed: check the rule and the receiver."
    if pushes.spared_calls:
        spared = counted(pushes.spared_calls, "call")
        yield f"{spared} spared in the last day: polls wait while pushes bring all alerts."
    yield from waiting_line(pushes)


def event_lines(found: "LakeStatus") -> Iterator[str]:
    """Yield one line about the events of the last day, if there were any."""
    if found.events:
        kinds = sorted({event.kind.replace("_", " ") for event in found.events})
        happened = f"{counted(len(found.events), 'event')} in the last day ({', '.join(kinds)})"
        yield f"{happened}: see `fleetlake records events list`."


def _is_stale(stream: "StreamStatus", last_load: datetime) -> bool:
    if stream.loaded_at is None or stream.unavailable:
        return False
    return last_load - stream.loaded_at > STALE_AFTER


def _row(stream: "StreamStatus", now: datetime) -> tuple[object, ...]:
    newest = f"{stream.watermark_at:%Y-%m-%d %H:%M}" if stream.watermark_at else ""
    return stream.endpoint, stream.rows, newest, age_in_words(stream.loaded_at, now)


def _notes(stream: "StreamStatus") -> Iterator[str]:
    """Yield facts about a stream that need no action."""
    from fleetlake.planning.intervals import BEGINNING

    if stream.devices and stream.complete_until:
        yield freshness_note(stream)
    if stream.complete_from not in {None, BEGINNING}:
        yield f"complete from {stream.complete_from:%Y-%m-%d %H:%M} on"
    if stream.retention:
        hours = stream.retention.expires_in.total_seconds() / 3600
        yield (
            f"load within {hours:,.0f} h: then the service deletes records that no load has read"
            if hours > 0
            else "the service has deleted records that no load has read"
        )
    if stream.drifted:
        members = counted(stream.drifted, "member")
        yield f"{members} without a column (`fleetlake records columns list`)"
    if stream.unavailable:
        yield "this account has no access to it"


def freshness_note(stream: "StreamStatus") -> str:
    """Return how far every device of a list is proven, how often it is asked, and the cost."""
    from fleetlake.endpoints.relations import freshness_of
    from fleetlake.settings import load_settings

    until = f"{stream.complete_until:%Y-%m-%d %H:%M}"
    fan_out = ENDPOINTS[stream.endpoint].fan_out
    hours = freshness_of(load_settings().freshness)[stream.endpoint] / timedelta(hours=1)
    proven = f"each of {counted(stream.devices or 0, 'device')} is complete until {until} or later"
    if not hours or fan_out is None:
        return f"{proven}, and asked at each load"
    calls = math.ceil((stream.devices or 0) / fan_out.ids_per_call / hours)
    return f"{proven}, and asked every {hours:g} h: about {counted(calls, 'call')} an hour"
