"""`fleetlake ingest`: copy what is new."""

import os
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from fleetlake.cli.instants import FORMATS, in_utc

if TYPE_CHECKING:
    from fleetlake.settings import Settings


def ingest(
    endpoints: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ENDPOINT]...", help="What to load; everything when left out."),
    ] = None,
    since: Annotated[
        datetime | None,
        typer.Option(
            formats=FORMATS,
            help="Load events from this time on (UTC) instead of all that the service holds; "
            "later runs go no further back.",
        ),
    ] = None,
    shard: Annotated[
        str,
        typer.Option(
            metavar="N/M",
            show_default="all of them",
            help="Of a large fleet, load only this share of the devices, 2/4 for example.",
        ),
    ] = "1/1",
    *,
    profile: Annotated[
        str | None, typer.Option(help="Only this account; all that are set when left out.")
    ] = None,
    accept_shrunk: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ENDPOINT",
            help="Believe that what this list no longer holds is gone, however much; repeatable.",
        ),
    ] = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Forecast the calls and minutes; ask for nothing.")
    ] = False,
) -> None:
    """Copy everything new from the service into the lake.

    The first run takes all that the service still holds; later runs ask only for what is new.
    It may be stopped at any moment and run again: nothing is lost or loaded twice.

    A list that has lost more than half of its records (FLEETLAKE_SHRINK_PCT, in percent) and
    more than three is read again. If they are still missing, nothing of it is taken as gone,
    and the command ends with exit code 6 until --accept-shrunk says that it is right.

    All shards together load what a run without --shard does, in any order or at once. The first
    also loads what is not asked for device by device.
    """
    from fleetlake.cli.screen import console, watched
    from fleetlake.errors import UsageError
    from fleetlake.loading.ingest import ingest as ingest_endpoints
    from fleetlake.loading.ingest import raise_worst
    from fleetlake.planning.shards import Shard
    from fleetlake.settings import load_settings, unknown_variables

    try:
        share = Shard.parse(shard)
    except ValueError as error:
        raise UsageError(f"--shard: {error}.") from None
    settings = load_settings()
    for name, meant in unknown_variables(os.environ):
        if meant:
            said = f"Warning: there is no setting {name} ({meant}?), so it has no effect."
            console(stderr=True).print(said)
    settings = settings.account(profile) if profile else settings
    start = None if since is None else in_utc(since)
    if plan:
        for account in settings.accounts():
            console().print(*_plan(account, endpoints or [], start), sep="\n")
        return
    load = partial(
        ingest_endpoints,
        settings,
        endpoints or [],
        since=start,
        shard=share,
        accept_shrunk=accept_shrunk or [],
    )
    raise_worst(watched(console(stderr=True), load))


def _plan(settings: "Settings", names: list[str], since: datetime | None) -> tuple[object, str]:
    """Return the forecast as a table, and what it comes to in a sentence."""
    from datetime import UTC

    from fleetlake.cli.screen import table
    from fleetlake.loading.forecast import plan_ingest
    from fleetlake.text.wording import counted, duration_in_words

    found = plan_ingest(settings, names, since=since, now=datetime.now(UTC))
    limit = settings.calls_per_minute
    columns = ("endpoint", "unread", "records", "calls", "minutes", "note")
    rows = [
        (
            f.endpoint,
            "" if f.unread is None else duration_in_words(f.unread),
            f.records,
            f.calls,
            round(f.calls / limit, 1) if limit and f.calls is not None else None,
            "first load: all that the service holds" if f.calls is None else "",
        )
        for f in found
    ]
    calls = sum(f.calls or 0 for f in found)
    unknown = any(f.calls is None for f in found)
    if not any(f.calls for f in found) and unknown:
        said = "Calls and minutes are not known before a first load."
        return table("", columns, rows), f"{said} Nothing was asked of the service."
    said = f"{'At least' if unknown else 'About'} {counted(calls, 'call')}"
    pace = f", {_minutes(calls / limit)} at {limit:,} calls a minute" if limit else ""
    return table("", columns, rows), f"{said}{pace}. Nothing was asked of the service."


def _minutes(length: float) -> str:
    return "less than a minute" if length < 1 else f"{length:,.0f} min"
