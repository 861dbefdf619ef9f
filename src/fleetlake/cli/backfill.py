"""`fleetlake backfill`: read a past range again."""

from datetime import datetime
from functools import partial
from typing import Annotated

import typer

from fleetlake.cli.command_group import endpoint_names
from fleetlake.cli.formats import TIME
from fleetlake.cli.screen import console, run_with_progress
from fleetlake.errors import UsageError


def backfill(
    endpoint: Annotated[
        str, typer.Argument(help="An endpoint with event times.", autocompletion=endpoint_names)
    ],
    start: Annotated[datetime, typer.Option("--from", help="Start, included (UTC).", **TIME)],
    end: Annotated[datetime, typer.Option("--to", help="End, not included (UTC).", **TIME)],
    *,
    profile: Annotated[
        str | None, typer.Option(help="Only this account; all configured ones if omitted.")
    ] = None,
) -> None:
    """Read a past range again and store the records that were missing.

    Safe to repeat: existing rows stay as they are. If it is stopped, the next `ingest` reads the
    rest of the range.
    """
    from fleetlake.loading.ingest import backfill as backfill_endpoint
    from fleetlake.loading.ingest import raise_worst
    from fleetlake.planning.intervals import Interval
    from fleetlake.settings import load_settings

    if start >= end:
        raise UsageError("--from must be before --to.", remedy="The range is [from, to).")
    settings = load_settings()
    settings = settings.account(profile) if profile else settings
    interval = Interval(start, end)
    load = partial(backfill_endpoint, settings, endpoint, interval)
    raise_worst(run_with_progress(console(stderr=True), load), named=[endpoint], may_skip=False)
