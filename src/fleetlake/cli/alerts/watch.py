"""`fleetlake alerts watch`: alerts in the terminal, as they arrive in the lake."""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from fleetlake.cli.alerts.rules import TypesOption
from fleetlake.cli.formats import TIME, FormatOption, OutputFormat, csv_writer
from fleetlake.cli.interrupts import on_ctrl_c
from fleetlake.cli.output import is_read_by_people, machine_output
from fleetlake.cli.screen import console
from fleetlake.text.plain import plain

if TYPE_CHECKING:
    from fleetlake.alerting.new_alerts import NewAlert

WIDEST_TYPE = 28


def watch(
    types: TypesOption = None,
    device: Annotated[
        str | None, typer.Option(metavar="ID", help="Only this device, by id or name.")
    ] = None,
    group: Annotated[
        str | None, typer.Option(metavar="ID", help="Only devices of this group, by id or name.")
    ] = None,
    since: Annotated[
        datetime | None,
        typer.Option(help="First show what was detected from this time on (UTC).", **TIME),
    ] = None,
    interval: Annotated[
        float, typer.Option(min=0.1, help="Seconds between two queries of the lake.")
    ] = 2.0,
    output: FormatOption = OutputFormat.TABLE,
    *,
    follow: Annotated[
        bool, typer.Option("--follow/--no-follow", help="Watch until Ctrl-C, or exit at once.")
    ] = True,
) -> None:
    """Show alerts as they arrive in the lake, pushed or polled, each once.

    It reads the lake only: it makes no call, and any number of them may run. Ctrl-C ends it. With
    --format json, each alert is one line.
    """
    import threading

    from fleetlake.alerting.chosen_types import chosen_types
    from fleetlake.alerting.new_alerts import AlertFilter, AlertTail
    from fleetlake.lake import open_lake
    from fleetlake.settings import load_settings

    settings = load_settings()
    chosen = AlertFilter(types=chosen_types(types or ()), device=device, group=group)
    ended = threading.Event()
    with on_ctrl_c(ended.set), open_lake(settings.lake, read_only=True, threads=1) as lake:
        tail = AlertTail(lake, chosen, since=since)
        show = _printer(output)
        show(tail.look())
        if follow:
            earlier = "" if since else "; --since TIME also shows earlier ones"
            console(stderr=True).print(f"Waiting for new alerts{earlier}. Ctrl-C ends it.")
        while follow and not ended.wait(interval):
            show(tail.look())


def _printer(output: OutputFormat) -> Callable[[Iterable["NewAlert"]], None]:
    """Return a function that prints alerts and flushes them."""
    if output is OutputFormat.JSON:
        return _print_lines
    if output is OutputFormat.CSV:
        return _csv_printer()
    return _print_for_people


def _print_for_people(alerts: Iterable["NewAlert"]) -> None:
    screen = console()
    for alert in alerts:
        at = f"{alert.detected_at:%Y-%m-%d %H:%M:%S}" if alert.detected_at else " " * 19
        kind = f"{plain(alert.alert_type):<{WIDEST_TYPE}}"
        what = plain(alert.description or "")
        screen.print(f"{at}  {kind}  {plain(_about(alert))}  {what}", soft_wrap=True)
    screen.file.flush()


def _about(alert: "NewAlert") -> str:
    """Return the name of an alert's device, or whatever else it is about."""
    if alert.router_id is None:
        return f"account {alert.account_id}"
    return alert.router_name or f"router {alert.router_id}"


def _print_lines(alerts: Iterable["NewAlert"]) -> None:
    import orjson

    from fleetlake.alerting.new_alerts import FIELDS

    out, is_shown = machine_output(), is_read_by_people()
    for alert in alerts:
        shown = {name: getattr(alert, name) for name in FIELDS}
        line = orjson.dumps(shown, option=orjson.OPT_UTC_Z).decode()
        out.write(f"{plain(line) if is_shown else line}\n")
    out.flush()


def _csv_printer() -> Callable[[Iterable["NewAlert"]], None]:
    """Return a function that prints rows, after a header with the first."""
    from fleetlake.alerting.new_alerts import FIELDS
    from fleetlake.settings import load_settings

    write = csv_writer(FIELDS, is_guarded=load_settings().csv_guard)

    def show(alerts: Iterable["NewAlert"]) -> None:
        write([getattr(alert, name) for name in FIELDS] for alert in alerts)
        machine_output().flush()

    return show
