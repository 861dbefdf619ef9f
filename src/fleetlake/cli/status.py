"""`fleetlake status`: is anything missing, and how far is each stream read?"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import groupby
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from fleetlake.monitoring.status import LakeStatus, StreamStatus

COLUMNS = ("endpoint", "rows", "newest event", "last load")
LEFT_BEHIND = timedelta(days=2)
"""Every schedule loads daily: a stream that far behind the others fails, or was forgotten."""


def status(
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Say what is missing and what to do about it, then show each stream.

    A stream holds every record that the service showed, from its beginning on, unless a line
    below the table says since when. Ends with exit code 9 while a lost range is not
    acknowledged (see `fleetlake gaps`).
    """
    from dataclasses import asdict

    import orjson

    from fleetlake.cli.output import is_read_by_people, machine_output
    from fleetlake.errors import RecordsMissing
    from fleetlake.lake import open_lake
    from fleetlake.monitoring.status import lake_now, lake_status
    from fleetlake.settings import load_settings
    from fleetlake.text.plain import plain_lines

    settings = load_settings()
    with open_lake(settings.lake, read_only=True) as lake:
        now = lake_now(lake, settings.clock)
        found = lake_status(lake, now=now, calls_per_minute=settings.calls_per_minute)
    if as_json:
        option = orjson.OPT_INDENT_2 | orjson.OPT_UTC_Z
        document = orjson.dumps(asdict(found), option=option, default=lambda d: d.total_seconds())
        text = document.decode()
        machine_output().write(f"{plain_lines(text) if is_read_by_people() else text}\n")
    else:
        _print(found, now)
    if found.open_gaps:
        raise RecordsMissing(
            f"The service forgot {len(found.open_gaps):,} ranges before they were read.",
            remedy="`fleetlake gaps` lists them; `fleetlake gaps --acknowledge` ends this error.",
        )


def _print(found: "LakeStatus", now: datetime) -> None:
    from fleetlake.cli.screen import console, table

    screen = console()
    for line in verdict(found, now):
        screen.print(line)
    accounts = groupby(found.streams, key=lambda stream: stream.account_profile)
    by_account = {profile: list(streams) for profile, streams in accounts}
    for profile, streams in by_account.items():
        title = f"profile {profile}" if len(by_account) > 1 else ""
        screen.print(table(title, COLUMNS, [_row(stream, now) for stream in streams]))
    for stream in found.streams:
        for note in _notes(stream):
            screen.print(f"{_name(stream)}: {note}.")


def verdict(found: "LakeStatus", now: datetime) -> Iterator[str]:
    """Yield what a person should know first: that nothing is missing, or what to do."""
    from fleetlake.text.wording import age_in_words, counted

    loaded = [stream.loaded_at for stream in found.streams if stream.loaded_at]
    if not loaded:
        yield "Nothing loaded yet: run `fleetlake ingest`."
        return
    age = age_in_words(max(loaded), now)
    rows = f"{sum(s.rows for s in found.streams):,} rows in {counted(len(loaded), 'stream')}"
    faults = list(_faults(found, max(loaded), now))
    if not faults:
        yield f"Nothing is missing up to the last load, {age}: {rows}."
        return
    yield f"{counted(len(faults), 'thing')} to look at; the last load was {age}, {rows}."
    yield from (f"- {fault}" for fault in faults)


def _faults(found: "LakeStatus", last_load: datetime, now: datetime) -> Iterator[str]:
    from fleetlake.account import stream_name
    from fleetlake.lake.clock_repair import TOLERANCE
    from fleetlake.planning.retention import RetentionState
    from fleetlake.text.wording import age_in_words, counted

    for lost in sorted({stream_name(gap.endpoint, gap.account_profile) for gap in found.open_gaps}):
        yield f"Of {lost} the service forgot what was not yet read: see `fleetlake gaps`."
    for stream in found.streams:
        name, load = _name(stream), f"run `fleetlake ingest {stream.endpoint}`"
        if stream.retention and stream.retention.state is not RetentionState.OK:
            yield f"{name} is {stream.retention.state}: {load}."
        if _is_left_behind(stream, last_load):
            yield f"{name} was last loaded {age_in_words(stream.loaded_at, now)}: {load}."
        if stream.complete_until and stream.complete_until > now + TOLERANCE:
            until = f"{stream.complete_until:%Y-%m-%d %H:%M}"
            yield f"{name} is called complete until {until}, later than now: {load} to correct it."
        if stream.holes:
            holes = counted(stream.holes, "hole")
            yield f"{name} has {holes}: if no load is under way, {load}."
        if stream.absent:
            gone = counted(stream.absent, "record")
            yield (
                f"{name} no longer lists {gone}, too many to be taken as gone: check the keys' "
                f"rights; if it is right, {load[:-1]} --accept-shrunk {stream.endpoint}`."
            )
        if stream.quarantined:
            refused = counted(stream.quarantined, "record")
            yield f"{refused} of {name} could not be kept: see `fleetlake quarantine list`."


def _is_left_behind(stream: "StreamStatus", last_load: datetime) -> bool:
    if stream.loaded_at is None or stream.unavailable:
        return False
    return last_load - stream.loaded_at > LEFT_BEHIND


def _row(stream: "StreamStatus", now: datetime) -> tuple[object, ...]:
    from fleetlake.text.wording import age_in_words

    newest = f"{stream.watermark_at:%Y-%m-%d %H:%M}" if stream.watermark_at else ""
    return stream.endpoint, stream.rows, newest, age_in_words(stream.loaded_at, now)


def _notes(stream: "StreamStatus") -> Iterator[str]:
    """Yield what a person should know beyond the numbers, and need not mend."""
    from fleetlake.planning.intervals import BEGINNING
    from fleetlake.text.wording import counted

    if stream.complete_from not in {None, BEGINNING}:
        yield f"complete from {stream.complete_from:%Y-%m-%d %H:%M} on"
    if stream.retention:
        hours = stream.retention.expires_in.total_seconds() / 3600
        yield f"{hours:,.0f} h left before the service forgets its oldest unread record"
    if stream.drifted:
        members = counted(stream.drifted, "member")
        yield f"{members} without a column (`fleetlake columns list`)"
    if stream.unavailable:
        yield "this account may not read it"


def _name(stream: "StreamStatus") -> str:
    from fleetlake.account import stream_name

    return stream_name(stream.endpoint, stream.account_profile)
