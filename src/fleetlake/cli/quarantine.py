"""`fleetlake quarantine`: records that could not be kept."""

from enum import StrEnum
from typing import Annotated

import typer

LONGEST_RAW = 80


class Action(StrEnum):
    """What to do with them."""

    LIST = "list"
    SHOW = "show"
    RETRY = "retry"


def quarantine(
    action: Annotated[
        Action,
        typer.Argument(help="list: how many and why. show: as received. retry: read them again."),
    ] = Action.LIST,
    endpoint: Annotated[
        str | None, typer.Option(help="Only this endpoint; all when left out.")
    ] = None,
) -> None:
    """List, show or retry the records that could not be kept in a raw table."""
    from collections import Counter

    from fleetlake.cli.screen import console, listing
    from fleetlake.lake import open_lake
    from fleetlake.quarantine import quarantined, retry_quarantined
    from fleetlake.settings import load_settings

    screen = console()
    with open_lake(load_settings().lake, read_only=action is not Action.RETRY) as lake:
        if action is Action.RETRY:
            kept, waiting = retry_quarantined(lake, endpoint)
            screen.print(f"{kept:,} records became rows, {waiting:,} still wait.")
            return
        records = quarantined(lake, endpoint)
    if action is Action.SHOW:
        for record in records:
            said = f"{record.endpoint}: {record.reason}\n  {record.raw}"
            screen.print(said, markup=False, soft_wrap=True)
        return
    counts = Counter((record.endpoint, record.reason) for record in records)
    rows = [(name, reason, count) for (name, reason), count in sorted(counts.items())]
    screen.print(listing(("endpoint", "reason", "records"), rows))
