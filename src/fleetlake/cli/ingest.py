"""`fleetlake ingest`: copy what is new."""

from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from fleetlake.cli.instants import FORMATS, in_utc

if TYPE_CHECKING:
    from fleetlake.run import Outcome


def ingest(
    endpoints: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ENDPOINT]...", help="What to load; everything when left out."),
    ] = None,
    since: Annotated[
        datetime | None,
        typer.Option(
            formats=FORMATS,
            help="Load events from this time on (UTC) instead of all that the service holds.",
        ),
    ] = None,
) -> None:
    """Copy everything new from the service into the lake.

    The first run takes all that the service still holds; later runs ask only for what is new.
    It may be stopped at any moment and run again: nothing is lost or loaded twice.
    """
    from fleetlake.cli.screen import console, watching
    from fleetlake.ingest import ingest as ingest_endpoints
    from fleetlake.ingest import raise_worst
    from fleetlake.settings import load_settings

    start = None if since is None else in_utc(since)
    screen = console(stderr=True)
    with watching(screen) as watcher:
        outcomes = ingest_endpoints(load_settings(), endpoints or [], watcher=watcher, since=start)
    console().print(outcome_table(outcomes))
    raise_worst(outcomes)


def outcome_table(outcomes: "list[Outcome]") -> object:
    """Return the table of what a load did, stream by stream."""
    from fleetlake.cli.screen import table

    columns = ("endpoint", "added", "changed", "quarantined", "calls", "seconds", "note")
    return table(
        "",
        columns,
        [
            (
                o.endpoint,
                o.added,
                o.changed,
                o.quarantined,
                o.calls,
                round(o.seconds, 1),
                o.error.what if o.error else _spared(o.spared),
            )
            for o in outcomes
        ],
    )


def _spared(ids: int) -> str:
    return f"{ids:,} ids had nothing new" if ids else ""
