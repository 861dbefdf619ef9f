"""`fleetlake records columns`: members that the service added, and which of them have a column."""

from typing import TYPE_CHECKING, Annotated

import typer

from fleetlake.cli.command_group import ListGroup, endpoint_names
from fleetlake.cli.formats import FormatOption, OutputFormat, print_records
from fleetlake.cli.screen import console, table_or_none
from fleetlake.endpoints import endpoint_named
from fleetlake.endpoints.columns import Kind
from fleetlake.text.wording import counted

if TYPE_CHECKING:
    from fleetlake.lake.evolution.promotions import Member

FIELDS = ("endpoint", "member", "first_seen_at", "example", "column", "kind")
"""Keys of the JSON output and columns of the CSV output."""

EndpointArgument = Annotated[
    str, typer.Argument(help="The member's endpoint.", autocompletion=endpoint_names)
]
MemberArgument = Annotated[str, typer.Argument(help="The member, as `columns list` shows it.")]

columns = typer.Typer(
    cls=ListGroup,
    name="columns",
    help="List members that the service added, promote one to a column, demote it, or retype a "
    "column."
    "\n\n"
    "No decision is urgent: members without a column are kept in `_extra` from the first record "
    'on. `a.b` is the member b of the object a; `"a.b"` is a member with a dot in its name. A '
    "column's name consists of lower-case letters, digits and underscores.",
)


@columns.command("list")
def list_members(
    endpoint: Annotated[
        str | None,
        typer.Argument(help="Only this endpoint; all if omitted.", autocompletion=endpoint_names),
    ] = None,
    output: FormatOption = OutputFormat.TABLE,
) -> None:
    """List the members that arrived without a column."""
    from fleetlake.lake import open_lake
    from fleetlake.lake.evolution.promote import members
    from fleetlake.settings import load_settings

    settings = load_settings()
    name = endpoint_named(endpoint).name if endpoint else None
    with open_lake(settings.lake, read_only=True) as lake:
        listed = members(lake, name)
    if output is not OutputFormat.TABLE:
        records = [[getattr(member, field) for field in FIELDS] for member in listed]
        print_records(output, FIELDS, records, is_csv_guarded=settings.csv_guard)
        return
    heads = ("endpoint", "member", "first seen", "example", "column")
    rows = [
        (m.endpoint, m.member, f"{m.first_seen_at:%Y-%m-%d %H:%M}", m.example, _column(m))
        for m in listed
    ]
    console().print(table_or_none("members without a column", heads, rows))


@columns.command("promote")
def promote_member(
    endpoint: EndpointArgument,
    member: MemberArgument,
    *,
    kind: Annotated[
        Kind | None,
        typer.Option(
            "--type", help="The column's type; if omitted, the narrowest that fits all values."
        ),
    ] = None,
) -> None:
    """Give a member a column in this lake, filled from all rows loaded so far."""
    from fleetlake.lake import open_lake
    from fleetlake.lake.evolution.promote import promote
    from fleetlake.settings import load_settings

    found = endpoint_named(endpoint)
    with open_lake(load_settings().lake, must_exist=True) as lake:
        column, rows = promote(lake, found, member, kind)
    filled = f"{counted(rows, 'row')} filled"
    console().print(f"raw.{found.name}.{column.name} {column.sql_type}: {filled}.")


@columns.command("demote")
def demote_member(endpoint: EndpointArgument, member: MemberArgument) -> None:
    """Drop a promoted member's column and put its values back into `_extra`."""
    from fleetlake.lake import open_lake
    from fleetlake.lake.evolution.promote import demote
    from fleetlake.settings import load_settings

    found = endpoint_named(endpoint)
    with open_lake(load_settings().lake, must_exist=True) as lake:
        column, rows = demote(lake, found, member)
    console().print(
        f"raw.{found.name}.{column.name} is dropped; `_extra` has its value again in "
        f"{counted(rows, 'row')}."
    )


@columns.command("retype")
def retype_column(
    endpoint: EndpointArgument,
    member: Annotated[str, typer.Argument(help="The member or its column.")],
    *,
    kind: Annotated[
        Kind | None,
        typer.Option("--type", help="real, text or, to undo, integer; if omitted, what fits all."),
    ] = None,
) -> None:
    """Store a whole-number column in another type, because the service sends other values.

    Values that the column refused so far move to it from `_extra`. Marts read whole numbers of it.
    """
    from fleetlake.lake import open_lake
    from fleetlake.lake.evolution.promote import retype
    from fleetlake.settings import load_settings

    found = endpoint_named(endpoint)
    with open_lake(load_settings().lake, must_exist=True) as lake:
        column, rows = retype(lake, found, member, kind)
    filled = f"{counted(rows, 'row')} filled from `_extra`"
    console().print(f"raw.{found.name}.{column.name} {column.sql_type}: {filled}.")


def _column(member: "Member") -> str | None:
    """Return a promoted member's column and its kind, or None."""
    return member.column and f"{member.column} ({member.kind})"
