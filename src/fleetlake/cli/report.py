"""`fleetlake report`: the dashboard's pages in one file."""

from pathlib import Path
from typing import Annotated

import typer

from fleetlake.cli.screen import console
from fleetlake.errors import UsageError


def report(
    *,
    month: Annotated[bool, typer.Option("--month", help="The last 30 days.")] = False,
    week: Annotated[bool, typer.Option("--week", help="The last 7 days: the default.")] = False,
    output: Annotated[Path, typer.Option(help="File to write or replace.")] = Path(
        "fleet-report.html"
    ),
    published: Annotated[
        Path | None, typer.Option("--from", help="Published folder. Default: FLEETLAKE_PUBLISHED.")
    ] = None,
) -> None:
    """Write the dashboard's pages as one HTML file that opens without a server or internet.

    The first page says what changed since the period before; an appendix has the panels that need
    no choice of a device. It is of the newest published snapshot. For a PDF, print it.
    """
    from fleetlake.dashboard.report import read_report, write_report
    from fleetlake.publishing.snapshot_folders import published_folder
    from fleetlake.settings import load_settings

    if week and month:
        raise UsageError("A report has one range.", remedy="Choose --week or --month.")
    folder = published or published_folder(load_settings())
    size = write_report(read_report(folder, last="30d" if month else "7d"), output)
    console().print(f"Wrote {output.absolute()} ({size / 1e6:.1f} MB).")
