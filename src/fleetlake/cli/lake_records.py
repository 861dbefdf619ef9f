"""`fleetlake records`: what is missing, was refused or removed, and a comparison by key."""

import json
from collections.abc import Mapping
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from fleetlake.cli.command_group import ListGroup, endpoint_names
from fleetlake.cli.formats import TIME, FormatOption, OutputFormat, print_listed, print_records
from fleetlake.cli.screen import console
from fleetlake.endpoints import endpoint_named
from fleetlake.endpoints.columns import Kind
from fleetlake.errors import RecordsMissing
from fleetlake.text.plain import plain
from fleetlake.text.wording import counted

if TYPE_CHECKING:
    from fleetlake.lake import Lake
    from fleetlake.lake.evolution.promotions import Member
    from fleetlake.loading.verify import Comparison

GAP_FIELDS = (
    *("account_profile", "endpoint", "partition", "start_at", "end_at", "reason"),
    *("recorded_at", "acknowledged_at"),
)
COUNT_FIELDS = ("endpoint", "reason", "records")
RECORD_FIELDS = (
    *("account_profile", "endpoint", "partition", "reason", "raw"),
    *("quarantined_at", "last_seen_at", "times_seen"),
)
MEMBER_FIELDS = ("endpoint", "member", "first_seen_at", "example", "column", "kind")
COMPARISON_FIELDS = (
    *("account_profile", "endpoint", "start_at", "end_at"),
    *("served", "missing", "surplus", "calls"),
)
EVENT_FIELDS = (
    *("happened_at", "kind", "actor", "account_profile", "endpoint", "rows", "summary"),
    "details",
)
"""Keys of the JSON output and columns of the CSV output."""

NEXT = (
    "If the service corrects a record, the next load of a list stores it; for an endpoint with "
    "event times, run `fleetlake backfill ENDPOINT --from … --to …`. Once the records are dealt "
    "with, run `fleetlake records quarantine acknowledge`."
)
SHOWN_KEYS = 5
INSTANT = "%Y-%m-%dT%H:%M:%S"

OneEndpointOption = Annotated[
    str | None,
    typer.Argument(help="Only this endpoint; all if omitted.", autocompletion=endpoint_names),
]
EndpointArgument = Annotated[
    str, typer.Argument(help="The member's endpoint.", autocompletion=endpoint_names)
]
MemberArgument = Annotated[str, typer.Argument(help="The member, as `columns list` shows it.")]


def _lake(*, read_only: bool = False) -> AbstractContextManager["Lake"]:
    """Open the lake: to read it, or to change what it holds."""
    from fleetlake.lake import open_lake
    from fleetlake.settings import load_settings

    return open_lake(load_settings().lake, read_only=read_only, must_exist=not read_only)


def _name(endpoint: str | None) -> str | None:
    """Return the endpoint's name; None for all. Raises: UsageError if it does not exist."""
    return endpoint_named(endpoint).name if endpoint else None


class GapsGroup(ListGroup):
    """The commands of `fleetlake records gaps`."""

    old_words: ClassVar[Mapping[str, str]] = {"--acknowledge": "acknowledge"}


gaps = typer.Typer(
    cls=GapsGroup,
    name="gaps",
    help="List or acknowledge time ranges that the service deleted before they were read.",
)


@gaps.command("list")
def list_gaps(output: FormatOption = OutputFormat.TABLE) -> None:
    """List the lost ranges; `status` fails until they are acknowledged."""
    from fleetlake.lake.gaps import gaps as recorded_gaps

    with _lake(read_only=True) as lake:
        found = recorded_gaps(lake)
    print_listed(
        output,
        GAP_FIELDS,
        found,
        things="lost ranges",
        heads=("endpoint", "id", "from", "to", "reason", "acknowledged"),
        row=lambda gap: (
            gap.endpoint,
            gap.partition,
            f"{gap.start_at:%Y-%m-%d %H:%M:%S.%f}",
            f"{gap.end_at:%Y-%m-%d %H:%M:%S.%f}",
            gap.reason,
            "yes" if gap.acknowledged_at else "no",
        ),
    )


@gaps.command("acknowledge")
def acknowledge_gaps() -> None:
    """Mark all open gaps as known, so that `status` succeeds again."""
    from fleetlake.lake.gaps import acknowledge_gaps as acknowledge_recorded

    with _lake() as lake:
        count = acknowledge_recorded(lake)
    console().print(f"{counted(count, 'gap')} acknowledged.")


class QuarantineGroup(ListGroup):
    """The commands of `fleetlake records quarantine`."""

    old_words: ClassVar[Mapping[str, str]] = {"--endpoint": ""}


quarantine = typer.Typer(
    cls=QuarantineGroup,
    name="quarantine",
    help="List, show, retry or acknowledge records that could not be stored in their table.",
)


@quarantine.command("list")
def list_quarantined(
    endpoint: OneEndpointOption = None, output: FormatOption = OutputFormat.TABLE
) -> None:
    """Count the quarantined records by endpoint and reason."""
    from collections import Counter

    from fleetlake.loading.quarantine import quarantined

    with _lake(read_only=True) as lake:
        records = quarantined(lake, _name(endpoint))
    counts = Counter((record.endpoint, record.reason) for record in records)
    rows = [(name, reason, count) for (name, reason), count in sorted(counts.items())]
    print_listed(output, COUNT_FIELDS, rows, things="quarantined records", heads=COUNT_FIELDS)
    if rows and output is OutputFormat.TABLE:
        console().print(NEXT)


@quarantine.command("show")
def show_quarantined(
    endpoint: OneEndpointOption = None, output: FormatOption = OutputFormat.TABLE
) -> None:
    """Print each quarantined record as it was received, with the reason."""
    from fleetlake.loading.quarantine import quarantined

    with _lake(read_only=True) as lake:
        records = quarantined(lake, _name(endpoint))
    if output is not OutputFormat.TABLE:
        rows = [[getattr(record, field) for field in RECORD_FIELDS] for record in records]
        print_records(output, RECORD_FIELDS, rows)
        return
    screen = console()
    for record in records:
        line = f"{plain(record.endpoint)}: {plain(record.reason)}\n  {plain(record.raw)}"
        if record.times_seen > 1:
            last = f"{record.last_seen_at:%Y-%m-%d %H:%M} UTC"
            line += f"\n  received by {counted(record.times_seen, 'load')}, most recently at {last}"
        screen.print(line, soft_wrap=True)


@quarantine.command("retry")
def retry(endpoint: OneEndpointOption = None) -> None:
    """Read the quarantined JSON again and store the records that can be read now."""
    from fleetlake.loading.quarantine import retry_quarantined

    with _lake() as lake:
        kept, waiting = retry_quarantined(lake, _name(endpoint))
    console().print(f"{counted(kept, 'record')} stored; {waiting:,} still quarantined.")
    if waiting:
        console().print(NEXT)


@quarantine.command("acknowledge")
def acknowledge_quarantined(endpoint: OneEndpointOption = None) -> None:
    """Mark quarantined records as dealt with; meta.quarantine keeps them."""
    from fleetlake.loading import quarantine as stored

    with _lake() as lake:
        count = stored.acknowledge_quarantined(lake, _name(endpoint))
    console().print(f"{counted(count, 'record')} acknowledged; meta.quarantine keeps them.")


columns = typer.Typer(
    cls=ListGroup,
    name="columns",
    help="List members that the service added, promote one to a column, demote it, or retype a "
    "column."
    "\n\n"
    "No decision is urgent: members without a column are kept in `_extra` from the first record "
    'on. `a.b` is the member b of the object a; `"a.b"` is a member with a dot in its name. A '
    "column's name consists of lower-case letters, digits and underscores.",
)


@columns.command("list")
def list_members(
    endpoint: OneEndpointOption = None, output: FormatOption = OutputFormat.TABLE
) -> None:
    """List the members that arrived without a column."""
    from fleetlake.lake.evolution.promote import members

    name = _name(endpoint)
    with _lake(read_only=True) as lake:
        listed = members(lake, name)
    print_listed(
        output,
        MEMBER_FIELDS,
        listed,
        things="members without a column",
        heads=("endpoint", "member", "first seen", "example", "column"),
        row=lambda one: (
            *(one.endpoint, one.member, f"{one.first_seen_at:%Y-%m-%d %H:%M}"),
            *(one.example, _column(one)),
        ),
    )


@columns.command("promote")
def promote_member(
    endpoint: EndpointArgument,
    member: MemberArgument,
    *,
    kind: Annotated[
        Kind | None,
        typer.Option(
            "--type", help="The column's type; if omitted, the narrowest that fits all values."
        ),
    ] = None,
) -> None:
    """Give a member a column in this lake, filled from all rows loaded so far."""
    from fleetlake.lake.evolution.promote import promote

    found = endpoint_named(endpoint)
    with _lake() as lake:
        column, rows = promote(lake, found, member, kind)
    filled = f"{counted(rows, 'row')} filled"
    console().print(f"raw.{found.name}.{column.name} {column.sql_type}: {filled}.")


@columns.command("demote")
def demote_member(endpoint: EndpointArgument, member: MemberArgument) -> None:
    """Drop a promoted member's column and put its values back into `_extra`."""
    from fleetlake.lake.evolution.promote import demote

    found = endpoint_named(endpoint)
    with _lake() as lake:
        column, rows = demote(lake, found, member)
    console().print(
        f"raw.{found.name}.{column.name} is dropped; `_extra` has its value again in "
        f"{counted(rows, 'row')}."
    )


@columns.command("retype")
def retype_column(
    endpoint: EndpointArgument,
    member: Annotated[str, typer.Argument(help="The member or its column.")],
    *,
    kind: Annotated[
        Kind | None,
        typer.Option("--type", help="real, text or, to undo, integer; if omitted, what fits all."),
    ] = None,
) -> None:
    """Store a whole-number column in another type, because the service sends other values.

    Values that the column refused so far move to it from `_extra`. Marts read whole numbers of it.
    """
    from fleetlake.lake.evolution.promote import retype

    found = endpoint_named(endpoint)
    with _lake() as lake:
        column, rows = retype(lake, found, member, kind)
    filled = f"{counted(rows, 'row')} filled from `_extra`"
    console().print(f"raw.{found.name}.{column.name} {column.sql_type}: {filled}.")


def _column(member: "Member") -> str | None:
    """Return a promoted member's column and its kind, or None."""
    return member.column and f"{member.column} ({member.kind})"


def verify(
    endpoint: Annotated[
        str, typer.Argument(help="The endpoint to compare.", autocompletion=endpoint_names)
    ],
    start: Annotated[
        datetime | None,
        typer.Option("--from", help="Start, included (UTC); the beginning if omitted.", **TIME),
    ] = None,
    end: Annotated[
        datetime | None,
        typer.Option(
            "--to",
            help="End, not included (UTC); if omitted, the time up to which no more late records "
            "are expected.",
            **TIME,
        ),
    ] = None,
    output: FormatOption = OutputFormat.TABLE,
    *,
    profile: Annotated[
        str | None, typer.Option(help="Only this account; all configured ones if omitted.")
    ] = None,
) -> None:
    """Read a range again and compare its keys with the lake, without writing anything.

    Ends with exit code 9 if a record of the service is missing from the lake.
    """
    from fleetlake.loading.verify import verify as compare
    from fleetlake.planning.intervals import BEGINNING
    from fleetlake.settings import load_settings

    settings = load_settings()
    settings = settings.account(profile) if profile else settings
    accounts = settings.accounts()
    missing: list[tuple[object, ...]] = []
    records: list[tuple[object, ...]] = []
    remedy = ""
    for account in accounts:
        comparison = compare(account, endpoint, start=start or BEGINNING, end=end)
        missing += sorted(comparison.missing, key=str)
        remedy = remedy or (_remedy(comparison) if comparison.missing else "")
        records.append(_record(account.profile, comparison))
        if output is OutputFormat.TABLE:
            label = f" ({account.profile})" if len(accounts) > 1 else ""
            console().print(f"{comparison.endpoint}{label}{_summary(comparison)}")
    if output is not OutputFormat.TABLE:
        print_records(output, COMPARISON_FIELDS, records)
    if missing:
        some = ", ".join(" ".join(map(str, key)) for key in missing[:SHOWN_KEYS])
        raise RecordsMissing(
            f"{len(missing):,} {endpoint} records are missing from the lake, e.g. {some}.",
            remedy=remedy,
        )


def _record(profile: str, comparison: "Comparison") -> tuple[object, ...]:
    """Return a comparison in the order of COMPARISON_FIELDS; a whole list has no range."""
    interval = comparison.interval
    start, end = (interval.start, interval.end) if interval else (None, None)
    counts = (comparison.served, len(comparison.missing), len(comparison.surplus), comparison.calls)
    return profile, comparison.endpoint, start, end, *counts


def _summary(comparison: "Comparison") -> str:
    return (
        f"{_range(comparison)}: {counted(comparison.served, 'record')} at the service, "
        f"{len(comparison.missing):,} of them missing from the lake, "
        f"{len(comparison.surplus):,} only in the lake; {counted(comparison.calls, 'call')}."
    )


def _range(comparison: "Comparison") -> str:
    """Return the compared range in words; it ends where late records may still arrive."""
    from fleetlake.planning.intervals import BEGINNING

    if comparison.interval is None:
        return ""
    start, end = comparison.interval.start, comparison.interval.end
    since = "" if start == BEGINNING else f" from {start:{INSTANT}}"
    return f"{since} until {end:{INSTANT}} UTC"


def _remedy(comparison: "Comparison") -> str:
    """Return the command that reads the compared range again."""
    if comparison.interval is None:
        return f"Run `fleetlake ingest {comparison.endpoint}`, which reads the whole list again."
    start, end = comparison.interval.start, comparison.interval.end + timedelta(seconds=1)
    arguments = f"{comparison.endpoint} --from {start:{INSTANT}} --to {end:{INSTANT}}"
    return f"Run `fleetlake backfill {arguments}`, which reads that range again."


events = typer.Typer(
    cls=ListGroup,
    name="events",
    help="List the lake's audit trail: what was found, repaired or removed on purpose, when and "
    "by whom.",
)


@events.command("list")
def list_events(
    since: Annotated[
        datetime | None, typer.Option(help="Only events from this time on (UTC).", **TIME)
    ] = None,
    output: FormatOption = OutputFormat.TABLE,
) -> None:
    """List the events, oldest first. Maintenance, retention and erasure keep them."""
    from fleetlake.lake.audit_trail import read_events

    with _lake(read_only=True) as lake:
        found = [vars(event) for event in read_events(lake, since=since)]
    for event in found if output is OutputFormat.CSV else ():
        event["details"] = json.dumps(event["details"])
    print_listed(
        output,
        EVENT_FIELDS,
        found,
        things="events",
        heads=("when (UTC)", "what", "by", "rows", "summary"),
        row=lambda event: (
            f"{event['happened_at']:%Y-%m-%d %H:%M}",
            *(event[name] for name in ("kind", "actor", "rows", "summary")),
        ),
    )
