"""The geometry of a table's rows as WKT, longitude first: points, the lines of trips, grid cells.

A place that is unknown, or beyond 90 degrees of latitude or 180 of longitude, has no geometry; a
trip of a single point is not a line. A line that crosses the antimeridian is cut there into the
parts of a MULTILINESTRING, as RFC 7946 asks, so that no map draws it around the world.
"""

from collections.abc import Sequence
from dataclasses import replace

from fleetlake.exporters.changes import Source
from fleetlake.lake import Lake
from fleetlake.marts.sql_project import variable
from fleetlake.text.quoting import quoted
from fleetlake.text.tables_beside import text_beside

GEOMETRY = "geometry"

_POINT = ("latitude_deg", "longitude_deg")
_CELL = ("cell_latitude_deg", "cell_longitude_deg")
_TRACK = "location_track_points"
_ENDS = ("start_latitude_deg", "start_longitude_deg", "end_latitude_deg", "end_longitude_deg")

_TRIP_LINES = text_beside(__file__, "trip_lines.sql")
_TRIP_LINE = "(SELECT line FROM trip_lines WHERE of_router_id = router_id AND of_trip_id = trip_id)"


def with_geometry(lake: Lake, sources: Sequence[Source]) -> list[Source]:
    """Return the tables, each with the geometry of its rows if they have a place."""
    shapes = ((source, _wkt(lake, source)) for source in sources)
    return [replace(s, derived={GEOMETRY: wkt}) if wkt else s for s, wkt in shapes]


def has_geometry(source: Source) -> bool:
    """Return whether the rows of a table have a place."""
    return GEOMETRY in source.derived


def _wkt(lake: Lake, source: Source) -> str | None:
    """Return the SQL of a row's geometry; None for a table without places."""
    columns = _columns(lake, source.schema, source.table)
    if GEOMETRY in columns:
        return None
    if source.name == "trips" and columns >= {*_ENDS} and _columns(lake, "marts", _TRACK):
        lake.execute(_TRIP_LINES)
        return _TRIP_LINE
    if columns >= {*_CELL}:
        return _cell(float(variable("cell_deg")))
    return _located(*_POINT, _point(*_POINT)) if columns >= {*_POINT} else None


def _columns(lake: Lake, schema: str, table: str) -> set[str]:
    found = lake.rows(
        "select column_name from duckdb_columns()"
        " where database_name = 'lake' and schema_name = ? and table_name = ?",
        [schema, table],
    )
    return {name for (name,) in found}


def _point(latitude: str, longitude: str) -> str:
    return f"'POINT (' || {quoted(longitude)} || ' ' || {quoted(latitude)} || ')'"


def _located(latitude: str, longitude: str, wkt: str) -> str:
    is_place = f"abs({quoted(latitude)}) <= 90 AND abs({quoted(longitude)}) <= 180"
    return f"CASE WHEN {is_place} THEN {wkt} END"


def _cell(size: float) -> str:
    """Return the SQL of a grid cell from its centre; the rows at the poles are one cell each."""
    lat, lon = map(quoted, _CELL)
    south, north = (f"round({lat} {sign} {size / 2}, 6)" for sign in "-+")
    west, east = (
        f"CASE WHEN abs({lat}) > {90 - size} THEN {edge} ELSE round({lon} {sign} {size / 2}, 6) END"
        for sign, edge in (("-", -180.0), ("+", 180.0))
    )
    corners = ((west, south), (east, south), (east, north), (west, north), (west, south))
    ring = " || ', ' || ".join(f"({x}) || ' ' || ({y})" for x, y in corners)
    return _located(*_CELL, f"'POLYGON ((' || {ring} || '))'")
