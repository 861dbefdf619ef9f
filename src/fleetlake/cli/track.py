"""`fleetlake track`: one vehicle's day for a map."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated

import typer

from fleetlake.cli.formats import day as a_day
from fleetlake.cli.output import machine_output


class TrackFormat(StrEnum):
    """How the track is written."""

    GPX = "gpx"
    GEOJSON = "geojson"


def track(
    router: Annotated[str, typer.Argument(help="A router's id or name.")],
    day: Annotated[datetime, typer.Option(parser=a_day, metavar="DAY", help="A day, in UTC.")],
    output: Annotated[
        TrackFormat, typer.Option("--format", help="GPX 1.1, or GeoJSON (RFC 7946).")
    ] = TrackFormat.GPX,
) -> None:
    """Print where a vehicle was on one day, as GPX or GeoJSON.

    Its good fixes, with times in UTC; wrong fixes are left out. Half an hour without a fix breaks
    the line. Redirect it to a file: `fleetlake track "Bus 12" --day 2026-11-01 > bus.gpx`.
    """
    from fleetlake.exporters.day_track import as_geojson, as_gpx, day_track
    from fleetlake.lake import open_lake
    from fleetlake.settings import load_settings

    with open_lake(load_settings().lake, read_only=True) as lake:
        found = day_track(lake, router, day.date())
    machine_output().write(as_gpx(found) if output is TrackFormat.GPX else as_geojson(found))
