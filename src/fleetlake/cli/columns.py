"""`fleetlake columns`: members that the service added, and which of them are columns."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from fleetlake.endpoints.columns import Kind

if TYPE_CHECKING:
    from fleetlake.lake.evolution.promotions import Member


class Action(StrEnum):
    """What to do with them."""

    LIST = "list"
    PROMOTE = "promote"
    DEMOTE = "demote"


def columns(
    action: Annotated[
        Action,
        typer.Argument(
            help="list: members that came without a column. promote: make a column of one. "
            "demote: put a promoted column's values back into `_extra`."
        ),
    ] = Action.LIST,
    endpoint: Annotated[
        str | None, typer.Argument(help="The endpoint; to list, all when left out.")
    ] = None,
    member: Annotated[str | None, typer.Argument(help="The member, as `list` shows it.")] = None,
    *,
    kind: Annotated[
        Kind | None,
        typer.Option("--type", help="Its type; the narrowest that takes all values if left out."),
    ] = None,
) -> None:
    """List the members that came without a column, promote one to a column, or demote it again.

    Nothing waits for it: such members are kept in `_extra` from their first sight on. A
    promoted one gets its column in this lake, filled from all rows loaded so far; a demoted
    one loses the column and keeps the values. `a.b` is the member b of the object a, `"a.b"` a
    member with a dot in its name. A column's name has lower-case letters, digits and underscores.
    """
    from fleetlake.cli.screen import console, listing
    from fleetlake.endpoints import endpoint_named
    from fleetlake.errors import UsageError
    from fleetlake.lake import open_lake
    from fleetlake.lake.evolution.promote import demote, members, promote
    from fleetlake.settings import load_settings

    screen, lake_path = console(), load_settings().lake
    found = endpoint_named(endpoint) if endpoint else None
    if action is not Action.LIST:
        if found is None or member is None:
            raise UsageError(
                "Which member of which endpoint?",
                remedy=f"Type `fleetlake columns {action} ENDPOINT MEMBER`; "
                "`fleetlake columns` lists them.",
            )
        with open_lake(lake_path) as lake:
            if action is Action.PROMOTE:
                column, rows = promote(lake, found, member, kind)
                done = f"{column.sql_type}: {rows:,} rows filled."
            else:
                column, rows = demote(lake, found, member)
                done = f"is dropped: {rows:,} rows have its value in `_extra` again."
        screen.print(f"raw.{found.name}.{column.name} {done}")
        return
    with open_lake(lake_path, read_only=True) as lake:
        listed = members(lake, found.name if found else None)
    heads = ("endpoint", "member", "first seen", "example", "column")
    rows_shown = [
        (m.endpoint, m.member, f"{m.first_seen_at:%Y-%m-%d %H:%M}", m.example, _shown(m))
        for m in listed
    ]
    screen.print(listing(heads, rows_shown))


def _shown(member: "Member") -> str | None:
    """Return a promoted member's column: its name and its kind."""
    return member.column and f"{member.column} ({member.kind})"
