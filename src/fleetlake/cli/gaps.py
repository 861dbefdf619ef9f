"""`fleetlake records gaps`: time ranges that the service deleted before they were read."""

from collections.abc import Mapping
from typing import ClassVar

import typer

from fleetlake.cli.command_group import ListGroup
from fleetlake.cli.formats import FormatOption, OutputFormat, print_records
from fleetlake.cli.screen import console, table_or_none
from fleetlake.text.wording import counted

FIELDS = (
    "account_profile",
    "endpoint",
    "partition",
    "start_at",
    "end_at",
    "reason",
    "recorded_at",
    "acknowledged_at",
)
"""Keys of the JSON output and columns of the CSV output."""


class GapsGroup(ListGroup):
    """The commands of `fleetlake records gaps`."""

    old_words: ClassVar[Mapping[str, str]] = {"--acknowledge": "acknowledge"}


gaps = typer.Typer(
    cls=GapsGroup,
    name="gaps",
    help="List or acknowledge time ranges that the service deleted before they were read.",
)


@gaps.command("list")
def list_gaps(output: FormatOption = OutputFormat.TABLE) -> None:
    """List the lost ranges; `status` fails until they are acknowledged."""
    from fleetlake.lake import open_lake
    from fleetlake.lake.gaps import gaps as recorded_gaps
    from fleetlake.settings import load_settings

    settings = load_settings()
    with open_lake(settings.lake, read_only=True) as lake:
        found = recorded_gaps(lake)
    if output is not OutputFormat.TABLE:
        records = [[getattr(gap, field) for field in FIELDS] for gap in found]
        print_records(output, FIELDS, records, is_csv_guarded=settings.csv_guard)
        return
    rows = [
        (
            gap.endpoint,
            gap.partition,
            f"{gap.start_at:%Y-%m-%d %H:%M:%S.%f}",
            f"{gap.end_at:%Y-%m-%d %H:%M:%S.%f}",
            gap.reason,
            "yes" if gap.acknowledged_at else "no",
        )
        for gap in found
    ]
    columns = ("endpoint", "id", "from", "to", "reason", "acknowledged")
    console().print(table_or_none("lost ranges", columns, rows))


@gaps.command("acknowledge")
def acknowledge_gaps() -> None:
    """Mark all open gaps as known, so that `status` succeeds again."""
    from fleetlake.lake import open_lake
    from fleetlake.lake.gaps import acknowledge_gaps as acknowledge_recorded
    from fleetlake.settings import load_settings

    with open_lake(load_settings().lake, must_exist=True) as lake:
        count = acknowledge_recorded(lake)
    console().print(f"{counted(count, 'gap')} acknowledged.")
