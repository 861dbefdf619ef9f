"""`fleetlake records events`: what was found, repaired or removed on purpose, when and by whom."""

import json
from datetime import datetime
from typing import Annotated

import typer

from fleetlake.cli.command_group import ListGroup
from fleetlake.cli.formats import TIME, FormatOption, OutputFormat, print_records
from fleetlake.cli.screen import console, table_or_none

FIELDS = (
    "happened_at",
    "kind",
    "actor",
    "account_profile",
    "endpoint",
    "rows",
    "summary",
    "details",
)
"""Keys of the JSON output and columns of the CSV output."""

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
    from fleetlake.lake import open_lake
    from fleetlake.lake.audit_trail import read_events
    from fleetlake.settings import load_settings

    settings = load_settings()
    with open_lake(settings.lake, read_only=True) as lake:
        found = read_events(lake, since=since)
    if output is not OutputFormat.TABLE:
        is_csv = output is OutputFormat.CSV
        records = [
            [*(getattr(event, field) for field in FIELDS[:-1]), event.details] for event in found
        ]
        for record in records if is_csv else ():
            record[-1] = json.dumps(record[-1])
        print_records(output, FIELDS, records, is_csv_guarded=settings.csv_guard)
        return
    rows = [
        (f"{event.happened_at:%Y-%m-%d %H:%M}", event.kind, event.actor, event.rows, event.summary)
        for event in found
    ]
    console().print(table_or_none("events", ("when (UTC)", "what", "by", "rows", "summary"), rows))
