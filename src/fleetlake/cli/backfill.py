"""`fleetlake backfill`: a past range again."""

from datetime import datetime
from functools import partial
from typing import Annotated

import typer

from fleetlake.cli.instants import FORMATS, in_utc


def backfill(
    endpoint: Annotated[str, typer.Argument(help="An endpoint with event times.")],
    start: Annotated[
        datetime, typer.Option("--from", formats=FORMATS, help="Start, included (UTC).")
    ],
    end: Annotated[datetime, typer.Option("--to", formats=FORMATS, help="End, not included.")],
    *,
    profile: Annotated[
        str | None, typer.Option(help="Only this account; all that are set when left out.")
    ] = None,
) -> None:
    """Read a past range again and keep what was missing.

    Safe to repeat: what is there stays as it is. When it is stopped, the next `ingest` reads
    the rest of the range.
    """
    from fleetlake.cli.screen import console, watched
    from fleetlake.errors import UsageError
    from fleetlake.loading.ingest import backfill as backfill_endpoint
    from fleetlake.loading.ingest import raise_worst
    from fleetlake.planning.intervals import Interval
    from fleetlake.settings import load_settings

    if in_utc(start) >= in_utc(end):
        raise UsageError("--from is not before --to.", remedy="The range is [from, to).")
    settings = load_settings()
    settings = settings.account(profile) if profile else settings
    interval = Interval(in_utc(start), in_utc(end))
    load = partial(backfill_endpoint, settings, endpoint, interval)
    raise_worst(watched(console(stderr=True), load))
