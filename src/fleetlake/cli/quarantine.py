"""`fleetlake quarantine`: records that could not be kept."""

from enum import StrEnum
from typing import Annotated

import typer

NEXT = (
    "What the service has mended comes with the next load where an endpoint is read whole, and "
    "with `fleetlake backfill ENDPOINT --from … --to …` where it has event times. "
    "`fleetlake quarantine acknowledge` once they are dealt with."
)


class Action(StrEnum):
    """What to do with them."""

    LIST = "list"
    SHOW = "show"
    RETRY = "retry"
    ACKNOWLEDGE = "acknowledge"


def quarantine(
    action: Annotated[
        Action,
        typer.Argument(
            help="list: how many and why. show: as received. retry: read their JSON again. "
            "acknowledge: say that they are known."
        ),
    ] = Action.LIST,
    endpoint: Annotated[
        str | None, typer.Option(help="Only this endpoint; all when left out.")
    ] = None,
) -> None:
    """List, show, retry or acknowledge the records that could not be kept in a raw table."""
    from collections import Counter

    from fleetlake.cli.screen import console, listing
    from fleetlake.lake import open_lake
    from fleetlake.loading.quarantine import acknowledge_quarantined, quarantined, retry_quarantined
    from fleetlake.settings import load_settings
    from fleetlake.text.plain import plain
    from fleetlake.text.wording import counted

    screen = console()
    is_read = action in {Action.LIST, Action.SHOW}
    with open_lake(load_settings().lake, read_only=is_read) as lake:
        if action is Action.RETRY:
            kept, waiting = retry_quarantined(lake, endpoint)
            screen.print(f"{counted(kept, 'record')} became rows, {waiting:,} still wait.")
            if waiting:
                screen.print(NEXT)
            return
        if action is Action.ACKNOWLEDGE:
            count = acknowledge_quarantined(lake, endpoint)
            screen.print(f"{counted(count, 'record')} acknowledged; meta.quarantine keeps them.")
            return
        records = quarantined(lake, endpoint)
    if action is Action.SHOW:
        for record in records:
            said = f"{plain(record.endpoint)}: {plain(record.reason)}\n  {plain(record.raw)}"
            screen.print(said, soft_wrap=True)
        return
    counts = Counter((record.endpoint, record.reason) for record in records)
    rows = [(name, reason, count) for (name, reason), count in sorted(counts.items())]
    screen.print(listing(("endpoint", "reason", "records"), rows))
    if rows:
        screen.print(NEXT)
