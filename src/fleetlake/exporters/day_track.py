"""One vehicle's day as GPX 1.1 or GeoJSON (RFC 7946): its good fixes, with times in UTC."""

import html
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import Any

from fleetlake.errors import LakeError, UsageError
from fleetlake.lake import Lake
from fleetlake.text.tables_beside import statements_beside
from fleetlake.text.wording import did_you_mean

BREAK = timedelta(minutes=30)
"""Two fixes further apart are not joined by a line; as long without a fix ends a trip."""

_HALF_TURN, _TURN = 180.0, 360.0
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

_SQL = statements_beside(__file__, "day_track.sql")

Place = tuple[float, float]
"""Longitude and latitude in degrees, in the order of GeoJSON."""


@dataclass(frozen=True, kw_only=True)
class TrackFix:
    """One position of a vehicle, with what it measured there."""

    fixed_at: datetime
    latitude_deg: float
    longitude_deg: float
    altitude_m: float | None
    speed_kmh: float | None
    rsrp_dbm: float | None
    carrier: str | None

    @property
    def place(self) -> Place:
        """The position."""
        return self.longitude_deg, self.latitude_deg

    @property
    def time(self) -> str:
        """The time in UTC, to the second or finer."""
        return self.fixed_at.astimezone(UTC).isoformat().replace("+00:00", "Z")


@dataclass(frozen=True, kw_only=True)
class DayTrack:
    """The fixes of a router on one UTC day, in order; never empty."""

    router_id: int
    router_name: str
    day: date
    fixes: Sequence[TrackFix]

    def spans(self) -> Iterator[Sequence[TrackFix]]:
        """Yield the fixes that a line may join, span by span."""
        breaks = [
            n
            for n, (before, fix) in enumerate(pairwise(self.fixes), start=1)
            if fix.fixed_at - before.fixed_at > BREAK
        ]
        for first, last in pairwise([0, *breaks, len(self.fixes)]):
            yield self.fixes[first:last]


def day_track(lake: Lake, router: str, day: date) -> DayTrack:
    """Return the track of a router, named by id or by name, on a UTC day.

    Raises: UsageError for a name of no router or of several, and for a day without a fix;
    LakeError if the marts are not built yet.
    """
    if lake.rows(_SQL["built"]) != [(True,)]:
        raise LakeError(
            "The lake holds no tracks yet.", remedy="Run `fleetlake build` first: it makes them."
        )
    router_id, name = _router(lake, router)
    rows = lake.named_rows(_SQL["fixes"], [router_id, day])
    if not rows:
        nearest = lake.rows(_SQL["nearest"], [router_id, day])
        raise UsageError(
            f"Router {name} ({router_id}) has no fix on {day} (UTC).",
            remedy=f"The nearest day with fixes is {nearest[0][0]}." if nearest else "It has none.",
        )
    fixes = [TrackFix(**row) for row in rows]
    return DayTrack(router_id=router_id, router_name=name, day=day, fixes=fixes)


def _router(lake: Lake, router: str) -> tuple[int, str]:
    found = lake.rows(_SQL["devices_named"], [router])
    by_id = [row for row in found if str(row[0]) == router]
    if len(by_id or found) == 1:
        [(router_id, name)] = by_id or found
        return router_id, name or str(router_id)
    if not found:
        names = [name for (name,) in lake.rows(_SQL["names"])]
        raise UsageError(
            f"There is no router {router}.",
            remedy=f"{did_you_mean(router, names)}"
            '`fleetlake query "from marts.device_inventory"` lists them.',
        )
    ids = ", ".join(str(router_id) for router_id, _ in found)
    raise UsageError(
        f"Several routers have, or had, the name {router}.", remedy=f"Name one by id: {ids}."
    )


def as_gpx(track: DayTrack) -> str:
    """Return a track as GPX 1.1, with a segment for each unbroken span."""
    title = _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", f"{track.router_name} {track.day}")
    name = html.escape(title)
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        '<gpx version="1.1" creator="fleetlake" xmlns="http://www.topografix.com/GPX/1/1">',
        f"<metadata><name>{name}</name><time>{track.fixes[0].time}</time></metadata>",
        f"<trk><name>{name}</name>",
    ]
    for span in track.spans():
        lines += ["<trkseg>", *map(_trackpoint, span), "</trkseg>"]
    return "\n".join([*lines, "</trk>", "</gpx>", ""])


def _trackpoint(fix: TrackFix) -> str:
    height = "" if fix.altitude_m is None else f"<ele>{fix.altitude_m}</ele>"
    return (
        f'<trkpt lat="{fix.latitude_deg:.7f}" lon="{fix.longitude_deg:.7f}">'
        f"{height}<time>{fix.time}</time></trkpt>"
    )


def as_geojson(track: DayTrack) -> str:
    """Return a track as a FeatureCollection: its line, then a point for each fix."""
    router = {"router_id": track.router_id, "router_name": track.router_name}
    line = [part for span in track.spans() for part in cut_at_antimeridian([f.place for f in span])]
    features = (
        [_feature("MultiLineString", line, {**router, "day": str(track.day)})] if line else []
    )
    features += [
        _feature(
            "Point",
            fix.place,
            {
                "time": fix.time,
                "speed_kmh": fix.speed_kmh,
                "rsrp_dbm": fix.rsrp_dbm,
                "carrier": fix.carrier,
            },
        )
        for fix in track.fixes
    ]
    collection = {"type": "FeatureCollection", "features": features}
    return json.dumps(collection, ensure_ascii=False, indent=1) + "\n"


def _feature(kind: str, coordinates: Any, properties: dict[str, Any]) -> dict[str, Any]:
    geometry = {"type": kind, "coordinates": coordinates}
    return {"type": "Feature", "geometry": geometry, "properties": properties}


def cut_at_antimeridian(places: Sequence[Place]) -> list[list[Place]]:
    """Return a line as parts that do not cross 180 degrees; none of them is a single point.

    >>> cut_at_antimeridian([(179.0, 10.0), (-179.0, 20.0)])
    [[(179.0, 10.0), (180.0, 15.0)], [(-180.0, 15.0), (-179.0, 20.0)]]
    >>> cut_at_antimeridian([(1.0, 2.0), (1.0, 2.0)])
    []
    """
    parts: list[list[Place]] = [[*places[:1]]]
    for before, place in pairwise(places):
        if abs(place[0] - before[0]) > _HALF_TURN:
            edge = _HALF_TURN if before[0] > place[0] else -_HALF_TURN
            way = place[0] + (_TURN if edge > 0 else -_TURN) - before[0]
            share = (edge - before[0]) / way if way else 0.0
            latitude = round(before[1] + share * (place[1] - before[1]), 7)
            parts[-1].append((edge, latitude))
            parts.append([(-edge, latitude)])
        parts[-1].append(place)
    return [part for part in parts if len(set(part)) > 1]
