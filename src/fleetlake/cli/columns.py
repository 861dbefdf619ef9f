"""`fleetlake columns`: members that the service added, and making columns of them."""

from enum import StrEnum
from typing import Annotated

import typer

from fleetlake.columns import Kind


class Action(StrEnum):
    """What to do with them."""

    LIST = "list"
    PROMOTE = "promote"


def columns(
    action: Annotated[
        Action,
        typer.Argument(help="list: members without a column. promote: make a column of one."),
    ] = Action.LIST,
    endpoint: Annotated[
        str | None, typer.Argument(help="The endpoint; to list, all when left out.")
    ] = None,
    member: Annotated[
        str | None, typer.Argument(help="The member to promote, as `list` shows it.")
    ] = None,
    *,
    kind: Annotated[
        Kind | None,
        typer.Option("--type", help="Its type; the narrowest that takes all values if left out."),
    ] = None,
) -> None:
    """List the members that came without a column, or promote one to a column of its own.

    Nothing waits for it: such members are kept in `_extra` from their first sight on. A
    promoted one gets its column in this lake, filled from all rows loaded so far.
    """
    from fleetlake.cli.screen import console, listing
    from fleetlake.endpoints import endpoint_named
    from fleetlake.errors import UsageError
    from fleetlake.lake import open_lake
    from fleetlake.lake.promoted import members, promote
    from fleetlake.settings import load_settings

    screen, lake_path = console(), load_settings().lake
    found = endpoint_named(endpoint) if endpoint else None
    if action is Action.PROMOTE:
        if found is None or member is None:
            raise UsageError(
                "Which member of which endpoint?",
                remedy="Type `fleetlake columns promote ENDPOINT MEMBER`; "
                "`fleetlake columns` lists them.",
            )
        with open_lake(lake_path) as lake:
            column, rows = promote(lake, found, member, kind)
        screen.print(f"raw.{found.name}.{column.name} {column.sql_type}: {rows:,} rows filled.")
        return
    with open_lake(lake_path, read_only=True) as lake:
        listed = members(lake, found.name if found else None)
    heads = ("endpoint", "member", "first seen", "example", "column")
    rows_shown = [
        (m.endpoint, m.member, f"{m.first_seen_at:%Y-%m-%d %H:%M}", m.example, m.kind)
        for m in listed
    ]
    screen.print(listing(heads, rows_shown))
