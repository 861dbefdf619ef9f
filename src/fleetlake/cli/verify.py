"""`fleetlake records verify`: compare the service and the lake, key by key."""

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from fleetlake.cli.command_group import endpoint_names
from fleetlake.cli.formats import TIME, FormatOption, OutputFormat, print_records
from fleetlake.cli.screen import console
from fleetlake.errors import RecordsMissing
from fleetlake.text.wording import counted

if TYPE_CHECKING:
    from fleetlake.loading.verify import Comparison

SHOWN_KEYS = 5
INSTANT = "%Y-%m-%dT%H:%M:%S"
FIELDS = (
    "account_profile",
    "endpoint",
    "start_at",
    "end_at",
    "served",
    "missing",
    "surplus",
    "calls",
)
"""Keys of the JSON output and columns of the CSV output."""


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
        print_records(output, FIELDS, records, is_csv_guarded=settings.csv_guard)
    if missing:
        some = ", ".join(" ".join(map(str, key)) for key in missing[:SHOWN_KEYS])
        raise RecordsMissing(
            f"{len(missing):,} {endpoint} records are missing from the lake, e.g. {some}.",
            remedy=remedy,
        )


def _record(profile: str, comparison: "Comparison") -> tuple[object, ...]:
    """Return a comparison in the order of FIELDS; a whole list has no range."""
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
