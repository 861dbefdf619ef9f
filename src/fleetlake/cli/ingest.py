"""`fleetlake ingest`: copy what is new."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from fleetlake.cli.command_group import endpoint_names
from fleetlake.cli.formats import TIME, FormatOption, OutputFormat, print_records
from fleetlake.cli.screen import console, run_with_progress, table
from fleetlake.errors import UsageError
from fleetlake.text.wording import counted, duration_in_words

if TYPE_CHECKING:
    from fleetlake.loading.forecast import CallForecast
    from fleetlake.loading.outcome import Outcome
    from fleetlake.settings import Settings

PLAN_FIELDS = ("account_profile", "endpoint", "unread_s", "records", "calls", "minutes")
"""Keys of the plan's JSON output and columns of its CSV output."""

OUTCOME_FIELDS = (
    *("account_profile", "endpoint", "status", "added", "changed", "quarantined", "lost_ranges"),
    *("calls", "seconds", "error"),
)
"""Keys of a load's JSON output and columns of its CSV output."""

PLAN_COLUMNS = ("endpoint", "unread", "records", "calls", "minutes", "note")


def ingest(
    endpoints: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ENDPOINT", help="What to load; all if omitted.", autocompletion=endpoint_names
        ),
    ] = None,
    since: Annotated[
        datetime | None,
        typer.Option(
            help="Load events from this time on (UTC) instead of everything the service holds; "
            "later runs go no further back.",
            **TIME,
        ),
    ] = None,
    shard: Annotated[
        str,
        typer.Option(
            metavar="N/M",
            show_default="all of them",
            help="Load only this share of a large fleet's devices, e.g. 2/4.",
        ),
    ] = "1/1",
    output: FormatOption = OutputFormat.TABLE,
    *,
    profile: Annotated[
        str | None, typer.Option(help="Only this account; all configured ones if omitted.")
    ] = None,
    accept_shrunk: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ENDPOINT",
            help="Accept that all records missing from this list are gone; repeatable.",
            autocompletion=endpoint_names,
        ),
    ] = None,
    when_due: Annotated[
        bool,
        typer.Option(
            "--when-due", help="For schedules: leave out alerts while pushes bring all of them."
        ),
    ] = False,
    plan: Annotated[
        bool, typer.Option("--plan", help="Forecast calls and minutes without calling the service.")
    ] = False,
    fleet: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="ROUTERS",
            help="With --plan: forecast an hour, and the first load, of a fleet of this size.",
        ),
    ] = None,
) -> None:
    """Copy everything new from the service into the lake.

    The first run loads everything that the service still holds; later runs load only what is new.
    You can stop it at any moment and run it again: nothing is lost or loaded twice.

    If a list has lost more than half of its records (FLEETLAKE_SHRINK_PCT, in percent) and more
    than three, it is read again. If they are still missing, none of them is marked as gone, and
    the command ends with exit code 6 until --accept-shrunk confirms the loss.

    With --format json or csv, one record per stream says what was done: its `status` is loaded,
    not_due (see --when-due) or failed, and `calls` are the pages that were read.

    An endpoint that the account may not read (403, 404, 405) is skipped; if it was named, the
    command ends with exit code 4.

    With --when-due, alerts are not polled while pushes bring them and polls confirm them, for 45
    minutes at most. An alert that was only pushed, or only polled, ends that at once.

    All shards together load what a run without --shard loads; they may run in any order or
    concurrently. The first shard also loads the endpoints that are not read device by device.
    """
    from fleetlake.loading.ingest import ingest as ingest_endpoints
    from fleetlake.loading.ingest import raise_worst
    from fleetlake.planning.shards import Shard
    from fleetlake.settings import load_settings

    try:
        share = Shard.parse(shard)
    except ValueError as error:
        raise UsageError(f"--shard: {error}.") from None
    settings = load_settings()
    settings = settings.account(profile) if profile else settings
    if fleet and not plan:
        raise UsageError("--fleet is for forecasts: add --plan.")
    if fleet:
        _print_fleet(settings, endpoints or [], fleet, output)
        return
    if plan:
        _print_plan(settings, endpoints or [], since, output)
        return
    load = partial(
        ingest_endpoints,
        settings,
        endpoints or [],
        since=since,
        shard=share,
        accept_shrunk=accept_shrunk or [],
        when_due=when_due and since is None,
    )
    report = None if output is OutputFormat.TABLE else partial(_print_outcomes, output)
    outcomes = run_with_progress(console(stderr=True), load, report=report)
    raise_worst(outcomes, named=endpoints or ())


def _print_outcomes(output: OutputFormat, outcomes: Sequence["Outcome"]) -> None:
    """Print what was done for each stream, in the order in which they ended."""
    rows = [
        (
            *(o.profile, o.endpoint, o.status, o.added, o.changed, o.quarantined, o.lost),
            *(o.calls, round(o.seconds, 3), o.error and o.error.what),
        )
        for o in outcomes
    ]
    print_records(output, OUTCOME_FIELDS, rows)


def _print_plan(
    settings: "Settings", names: list[str], since: datetime | None, output: OutputFormat
) -> None:
    """Print the forecast of each account."""
    from fleetlake.loading.forecast import plan_ingest

    limit = settings.calls_per_minute
    records: list[tuple[object, ...]] = []
    for account in settings.accounts():
        found = plan_ingest(account, names, since=since, now=datetime.now(UTC))
        records += [
            (account.profile, f.endpoint, f.unread, f.records, f.calls, _minutes(f, limit))
            for f in found
        ]
        if output is OutputFormat.TABLE:
            console().print(table("", PLAN_COLUMNS, [_plan_row(f, limit) for f in found]))
            console().print(_plan_summary(found, limit))
    if output is not OutputFormat.TABLE:
        print_records(output, PLAN_FIELDS, records)


def _print_fleet(
    settings: "Settings", names: list[str], routers: int, output: OutputFormat
) -> None:
    """Print the forecast of an hour of a fleet, and what other freshness would cost."""
    from fleetlake.loading.forecast import one_per_call, plan_fleet

    limit = settings.calls_per_minute

    def total(chosen: "Settings", *, is_first: bool = False) -> str:
        found = plan_fleet(chosen, names, routers=routers, is_first=is_first)
        calls = sum(one.calls or 0 for one in found)
        minutes = f", {_duration(calls / limit)} at {limit:,} calls a minute" if limit else ""
        return f"{counted(calls, 'call')}{minutes}"

    found = plan_fleet(settings, names, routers=routers)
    if output is not OutputFormat.TABLE:
        records = [
            (settings.profile, f.endpoint, None, None, f.calls, _minutes(f, limit)) for f in found
        ]
        print_records(output, PLAN_FIELDS, records)
        return
    columns = ("endpoint", "each device asked every", "calls an hour", "minutes")
    rows = [(f.endpoint, _asked(f), f.calls, _minutes(f, limit)) for f in found]
    screen = console()
    screen.print(table("", columns, rows))
    screen.print(f"Each hour: {total(settings)}.")
    single = one_per_call()
    present = {f.unread for f in found if f.endpoint in single}
    for hours in (1, 6, 24):
        if present <= {timedelta(hours=hours)}:
            continue
        chosen = settings.model_copy(update={"freshness": dict.fromkeys(single, hours)})
        screen.print(f"With {' and '.join(single)} every {hours} h: {total(chosen)}.")
    screen.print(
        f"The first load: at least {total(settings, is_first=True)}, and one call for every 500 "
        "records that the service holds. The service was not called."
    )


def _asked(forecast: "CallForecast") -> str:
    """Return how often a list asks each device; nothing if it is read whole."""
    if forecast.unread is None:
        return ""
    return f"{forecast.unread.total_seconds() / 3600:g} h" if forecast.unread else "load"


def _plan_row(forecast: "CallForecast", limit: int) -> tuple[object, ...]:
    return (
        forecast.endpoint,
        "" if forecast.unread is None else duration_in_words(forecast.unread),
        forecast.records,
        forecast.calls,
        _minutes(forecast, limit),
        "first load: everything the service holds" if forecast.calls is None else "",
    )


def _minutes(forecast: "CallForecast", limit: int) -> float | None:
    """Return the minutes at `limit` calls a minute; None if unknown or unlimited."""
    return round(forecast.calls / limit, 1) if limit and forecast.calls is not None else None


def _plan_summary(found: Sequence["CallForecast"], limit: int) -> str:
    """Return the plan's total in one sentence."""
    calls = sum(f.calls or 0 for f in found)
    is_partial = any(f.calls is None for f in found)
    if is_partial and not calls:
        total = "Calls and minutes of a first load depend on the fleet: add --fleet ROUTERS"
    else:
        total = f"{'At least' if is_partial else 'About'} {counted(calls, 'call')}"
        total += f", {_duration(calls / limit)} at {limit:,} calls a minute" if limit else ""
    return f"{total}. The service was not called."


def _duration(minutes: float) -> str:
    return "less than a minute" if minutes < 1 else f"{minutes:,.0f} min"
