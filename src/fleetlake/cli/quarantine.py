"""`fleetlake records quarantine`: records that could not be stored in their table."""

from collections.abc import Mapping
from typing import Annotated, ClassVar

import typer

from fleetlake.cli.command_group import ListGroup, endpoint_names
from fleetlake.cli.formats import FormatOption, OutputFormat, print_records
from fleetlake.cli.screen import console, table_or_none
from fleetlake.endpoints import endpoint_named
from fleetlake.text.plain import plain
from fleetlake.text.wording import counted

NEXT = (
    "If the service corrects a record, the next load of a list stores it; for an endpoint with "
    "event times, run `fleetlake backfill ENDPOINT --from … --to …`. Once the records are dealt "
    "with, run `fleetlake records quarantine acknowledge`."
)
COUNT_FIELDS = ("endpoint", "reason", "records")
RECORD_FIELDS = (
    *("account_profile", "endpoint", "partition", "reason", "raw"),
    *("quarantined_at", "last_seen_at", "times_seen"),
)

EndpointArgument = Annotated[
    str | None,
    typer.Argument(help="Only this endpoint; all if omitted.", autocompletion=endpoint_names),
]


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
    endpoint: EndpointArgument = None, output: FormatOption = OutputFormat.TABLE
) -> None:
    """Count the quarantined records by endpoint and reason."""
    from collections import Counter

    from fleetlake.lake import open_lake
    from fleetlake.loading.quarantine import quarantined
    from fleetlake.settings import load_settings

    settings = load_settings()
    with open_lake(settings.lake, read_only=True) as lake:
        records = quarantined(lake, _name(endpoint))
    counts = Counter((record.endpoint, record.reason) for record in records)
    rows = [(name, reason, count) for (name, reason), count in sorted(counts.items())]
    if output is not OutputFormat.TABLE:
        print_records(output, COUNT_FIELDS, rows, is_csv_guarded=settings.csv_guard)
        return
    console().print(table_or_none("quarantined records", COUNT_FIELDS, rows))
    if rows:
        console().print(NEXT)


@quarantine.command("show")
def show_quarantined(
    endpoint: EndpointArgument = None, output: FormatOption = OutputFormat.TABLE
) -> None:
    """Print each quarantined record as it was received, with the reason."""
    from fleetlake.lake import open_lake
    from fleetlake.loading.quarantine import quarantined
    from fleetlake.settings import load_settings

    settings = load_settings()
    with open_lake(settings.lake, read_only=True) as lake:
        records = quarantined(lake, _name(endpoint))
    if output is not OutputFormat.TABLE:
        rows = [[getattr(record, field) for field in RECORD_FIELDS] for record in records]
        print_records(output, RECORD_FIELDS, rows, is_csv_guarded=settings.csv_guard)
        return
    screen = console()
    for record in records:
        line = f"{plain(record.endpoint)}: {plain(record.reason)}\n  {plain(record.raw)}"
        if record.times_seen > 1:
            last = f"{record.last_seen_at:%Y-%m-%d %H:%M} UTC"
            line += f"\n  received by {counted(record.times_seen, 'load')}, most recently at {last}"
        screen.print(line, soft_wrap=True)


@quarantine.command("retry")
def retry(endpoint: EndpointArgument = None) -> None:
    """Read the quarantined JSON again and store the records that can be read now."""
    from fleetlake.lake import open_lake
    from fleetlake.loading.quarantine import retry_quarantined
    from fleetlake.settings import load_settings

    with open_lake(load_settings().lake, must_exist=True) as lake:
        kept, waiting = retry_quarantined(lake, _name(endpoint))
    console().print(f"{counted(kept, 'record')} stored; {waiting:,} still quarantined.")
    if waiting:
        console().print(NEXT)


@quarantine.command("acknowledge")
def acknowledge(endpoint: EndpointArgument = None) -> None:
    """Mark quarantined records as dealt with; meta.quarantine keeps them."""
    from fleetlake.lake import open_lake
    from fleetlake.loading.quarantine import acknowledge_quarantined
    from fleetlake.settings import load_settings

    with open_lake(load_settings().lake, must_exist=True) as lake:
        count = acknowledge_quarantined(lake, _name(endpoint))
    console().print(f"{counted(count, 'record')} acknowledged; meta.quarantine keeps them.")


def _name(endpoint: str | None) -> str | None:
    """Return the endpoint's name; None for all. Raises: UsageError if it does not exist."""
    return endpoint_named(endpoint).name if endpoint else None
