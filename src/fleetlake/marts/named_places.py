"""The user's named places: `places.csv` of the project, as the seeds that the marts join.

A place is a circle (centre and radius) or a polygon in WKT. SQL finds out whether a point is within
a polygon from its edges alone, so that it needs no extension on any platform. Longitudes are
counted eastward from the western end of a place, so that the antimeridian cuts none.
"""

import csv
import io
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from fleetlake.errors import BuildFailed
from fleetlake.machine.project import found_project

PLACES_NAME = "places.csv"
HOURS = ("working_days", "working_from_hour", "working_until_hour")
COLUMNS = ("name", "latitude_deg", "longitude_deg", "radius_m", "wkt", *HOURS)

_METRES_PER_DEGREE = 111_195.08
_WIDEST_M = 100_000.0
_MOST_SHOWN = 10
_POLE, _HALF_TURN, _TURN = 90.0, 180.0, 360.0
_DAYS = re.compile(r"(?!.*(.).*\1)[1-7]*", re.ASCII)
_HOUR = re.compile(r"[0-9]{1,2}", re.ASCII)
_DAY_H = 24
_RING = re.compile(r"\(([^()]*)\)")
_POLYGON = re.compile(r"\s*(MULTI)?POLYGON\s*\(.*\)\s*", re.IGNORECASE | re.DOTALL)
_CORNERS = 4
"""The least number of corners of a ring, the first and last of which are the same."""

Corner = tuple[float, float]
"""Longitude and latitude in degrees, as WKT has them; the longitude may exceed 180."""

BANDS_PER_DEGREE = 10
"""A place has a row for each band of latitude that it touches, so that points join few places."""

PLACE_HEAD = (
    "place_name,band,latitude_deg,longitude_deg,radius_m,south_deg,north_deg,west_deg,width_deg,"
    f"area_m2,{','.join(HOURS)}"
)
EDGE_HEAD = "place_name,from_latitude_deg,from_east_deg,to_latitude_deg,to_east_deg"


@dataclass(frozen=True, kw_only=True)
class NamedPlace:
    """A place: a circle, or a polygon if `rings` has its outlines and holes."""

    name: str
    latitude_deg: float | None = None
    longitude_deg: float | None = None
    radius_m: float | None = None
    rings: Sequence[Sequence[Corner]] = ()
    hours: Sequence[str | int] = ("", "", "")
    """Its working days, such as "12345" (1 is Monday), and hours; empty for those of the fleet."""

    def bounds(self) -> tuple[float, float, float, float]:
        """Return the southern, northern and western end, and the width, all in degrees."""
        if self.latitude_deg is None or self.longitude_deg is None or self.radius_m is None:
            corners = [corner for ring in self.rings for corner in ring]
            west = min(x for x, _ in corners)
            latitudes = [y for _, y in corners]
            return min(latitudes), max(latitudes), west, max(x for x, _ in corners) - west
        high = self.radius_m / _METRES_PER_DEGREE
        south, north = self.latitude_deg - high, self.latitude_deg + high
        widest = max(abs(south), abs(north))
        if widest >= _POLE:
            return max(south, -_POLE), min(north, _POLE), -_HALF_TURN, _TURN
        wide = min(high / math.cos(math.radians(widest)), _HALF_TURN)
        return south, north, self.longitude_deg - wide, 2 * wide

    def holds(self, latitude_deg: float, longitude_deg: float) -> bool:
        """Return whether a point lies in it, as the marts judge it: on a sphere.

        >>> depot = NamedPlace(name="Depot", latitude_deg=40, longitude_deg=180, radius_m=1000)
        >>> depot.holds(40, -179.99), depot.holds(40, -179.98)
        (True, False)
        """
        south, north, west, width = self.bounds()
        east = (longitude_deg - west) % _TURN
        if not south <= latitude_deg <= north or east > width:
            return False
        if self.latitude_deg is not None and self.radius_m is not None:
            here, there = math.radians(latitude_deg), math.radians(self.latitude_deg)
            cosine = math.sin(here) * math.sin(there)
            cosine += math.cos(here) * math.cos(there) * math.cos(math.radians(east - width / 2))
            away = math.degrees(math.acos(min(cosine, 1))) * _METRES_PER_DEGREE
            return away <= self.radius_m
        crossings = 0
        for ring in self.rings:
            for (x1, y1), (x2, y2) in pairwise(ring):
                if (y1 > latitude_deg) != (y2 > latitude_deg):
                    across = x1 + (x2 - x1) * (latitude_deg - y1) / (y2 - y1)
                    crossings += east < across - west
        return crossings % 2 == 1

    def area_m2(self) -> float:
        """Return about how large it is: the smallest of several places names a stop."""
        if self.radius_m is not None:
            return math.pi * self.radius_m**2
        south, north, *_ = self.bounds()
        scale = _METRES_PER_DEGREE**2 * math.cos(math.radians((south + north) / 2))
        return abs(sum(map(_signed_area, self.rings))) * scale


def _signed_area(ring: Sequence[Corner]) -> float:
    """Return the area of a ring in square degrees, negative if it turns clockwise."""
    return sum(x1 * y2 - x2 * y1 for (x1, y1), (x2, y2) in pairwise(ring)) / 2


def places_file() -> Path | None:
    """Return the project's file of places, None if there is none."""
    project = found_project()
    file = project / PLACES_NAME if project else None
    return file if file and file.is_file() else None


def place_seeds() -> dict[str, str]:
    """Return the seeds of the project's places, by file name; empty without a file of places.

    Raises: BuildFailed, which names the wrong lines and what is wrong with each.
    """
    file = places_file()
    if file is None:
        return {}
    places = read_places(file)
    return {
        "places.csv": _as_csv(PLACE_HEAD, (row for p in places for row in _place_rows(p))),
        "place_edges.csv": _as_csv(EDGE_HEAD, (row for p in places for row in _edge_rows(p))),
    }


def read_places(file: Path) -> list[NamedPlace]:
    """Return the places in a file. Raises: BuildFailed, which names every wrong line."""
    try:
        rows = csv.DictReader(io.StringIO(file.read_text("utf-8-sig"), newline=""), strict=True)
        header = rows.fieldnames or ()
        is_known = {"name"} <= {*header} <= {*COLUMNS}
        found = [(rows.line_num, row) for row in rows] if is_known else None
    except (UnicodeDecodeError, csv.Error) as error:
        raise _wrong(file, [f"it is not CSV in UTF-8: {error}"]) from None
    if found is None:
        raise _wrong(file, [f"line 1: its columns must be {', '.join(COLUMNS)}"])
    places: dict[str, NamedPlace] = {}
    faults = []
    for line, row in found:
        try:
            place = _place(row)
        except ValueError as error:
            faults.append(f"line {line}: {error}")
            continue
        if place.name in places:
            faults.append(f"line {line}: there is another place {place.name}")
        places[place.name] = place
    if faults:
        raise _wrong(file, faults)
    return [*places.values()]


def _wrong(file: Path, faults: list[str]) -> BuildFailed:
    more = len(faults) - _MOST_SHOWN
    shown = "; ".join(faults[:_MOST_SHOWN]) + (f"; and {more} more" if more > 0 else "")
    return BuildFailed(
        f"{file} has wrong rows: {shown}.",
        remedy="Give each place a name and either latitude_deg, longitude_deg and radius_m, or a "
        "polygon as wkt. Working days and hours are optional.",
    )


def _place(row: dict[str, str | None]) -> NamedPlace:
    """Return the place in a row. Raises: ValueError saying what is wrong."""
    if None in row or None in row.values():
        raise ValueError("it has more or fewer values than the first line")
    values = {name: (value or "").strip() for name, value in row.items()}
    name, wkt = values["name"], values.get("wkt", "")
    circle = [values.get(column, "") for column in COLUMNS[1:4]]
    if not name:
        raise ValueError("it has no name")
    if bool(wkt) == any(circle):
        raise ValueError("it needs a centre and a radius, or a polygon, and not both")
    hours = _hours(*(values.get(column, "") for column in HOURS))
    if wkt:
        return NamedPlace(name=name, rings=_rings(wkt), hours=hours)
    latitude, longitude, radius = map(_number, COLUMNS[1:4], circle)
    _require_range("latitude_deg", latitude, _POLE)
    _require_range("longitude_deg", longitude, _HALF_TURN)
    if not 0 < radius <= _WIDEST_M:
        raise ValueError(f"radius_m {radius:g} is not above 0 and at most {_WIDEST_M:g}")
    return NamedPlace(
        name=name, latitude_deg=latitude, longitude_deg=longitude, radius_m=radius, hours=hours
    )


def _hours(days: str, first: str, last: str) -> Sequence[str | int]:
    """Return working days and hours. Raises: ValueError for those that no day can have."""
    if not _DAYS.fullmatch(days):
        raise ValueError(f"working_days {days!r} is not digits from 1 to 7, each once, e.g. 12345")
    if not first and not last:
        return days, "", ""
    if not (_HOUR.fullmatch(first) and _HOUR.fullmatch(last) and int(first) < int(last) <= _DAY_H):
        raise ValueError(
            f"working_from_hour {first!r} and working_until_hour {last!r} are not whole hours, "
            f"the first before the second, from 0 to {_DAY_H}"
        )
    return days, int(first), int(last)


def _number(column: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise ValueError(f"{column} {text!r} is not a number") from None
    if not math.isfinite(number):
        raise ValueError(f"{column} {text!r} is not a number")
    return number


def _require_range(column: str, number: float, limit: float) -> None:
    if not abs(number) <= limit:  # not a number compares as false
        raise ValueError(f"{column} {number:g} is not between -{limit:g} and {limit:g}")


def _rings(wkt: str) -> list[list[Corner]]:
    """Return the rings of a polygon or multipolygon: outlines turn left, and holes right.

    Those of a file may turn either way.
    """
    found = [*_RING.finditer(wkt)]
    is_balanced = wkt.count("(") == wkt.count(")")
    if not (_POLYGON.fullmatch(wkt) and found and is_balanced):
        raise ValueError("wkt is not a POLYGON or MULTIPOLYGON")
    rings = [[_corner(corner) for corner in ring[1].split(",")] for ring in found]
    near = rings[0][0][0]
    return [
        _turned(_unwrapped(corners, near=near), is_hole=wkt[: ring.start()].rstrip().endswith(","))
        for ring, corners in zip(found, rings, strict=True)
    ]


def _turned(ring: list[Corner], *, is_hole: bool) -> list[Corner]:
    return ring[::-1] if (_signed_area(ring) < 0) is not is_hole else ring


def _corner(text: str) -> Corner:
    try:
        longitude, latitude = map(float, text.split())
    except ValueError:
        raise ValueError(f"wkt: {text.strip()!r} is not a longitude and a latitude") from None
    _require_range("wkt: longitude", longitude, _HALF_TURN)
    _require_range("wkt: latitude", latitude, _POLE)
    return longitude, latitude


def _unwrapped(ring: list[Corner], *, near: float) -> list[Corner]:
    """Return a ring that starts near a longitude and does not jump at the antimeridian."""
    if len(ring) < _CORNERS or ring[0] != ring[-1]:
        raise ValueError("wkt: each ring needs three corners and must end where it starts")
    unwrapped = []
    for longitude, latitude in ring:
        near += (longitude - near + _HALF_TURN) % _TURN - _HALF_TURN
        unwrapped.append((near, latitude))
    return unwrapped


def _place_rows(place: NamedPlace) -> Iterator[list[object]]:
    south, north, west, width = place.bounds()
    centre = [place.latitude_deg, place.longitude_deg, place.radius_m]
    first, last = (math.floor(latitude * BANDS_PER_DEGREE) for latitude in (south, north))
    for band in range(first, last + 1):
        yield [place.name, band, *centre, south, north, west, width, place.area_m2(), *place.hours]


def _edge_rows(place: NamedPlace) -> Iterator[list[object]]:
    *_, west, _width = place.bounds()
    for ring in place.rings:
        for (x1, y1), (x2, y2) in pairwise(ring):
            if y1 != y2:  # no line to the east crosses a level edge
                yield [place.name, y1, x1 - west, y2, x2 - west]


def _as_csv(head: str, rows: Iterator[list[object]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(head.split(","))
    writer.writerows(rows)
    return text.getvalue()
