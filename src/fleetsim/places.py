"""Locations of the fleet: regions, depots and sites, and distances between points."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from fleetsim.units import HOUR, Ints, Reals

MILES_PER_DEGREE: Final = 69.0
METERS_PER_MILE: Final = 1609.344
_HALF_TURN: Final = 180


@dataclass(frozen=True)
class Region:
    """A metropolitan area: its centre in degrees, time zone and mean temperature."""

    name: str
    latitude: float
    longitude: float
    zone: str
    utc_offset_hours: int
    mean_temp_c: float


REGIONS: Final = (
    Region("Phoenix", 33.4484, -112.0740, "America/Phoenix", -7, 31.0),
    Region("Boise", 43.6150, -116.2023, "America/Boise", -7, 17.0),
    Region("Denver", 39.7392, -104.9903, "America/Denver", -7, 18.0),
    Region("Houston", 29.7604, -95.3698, "America/Chicago", -6, 28.0),
    Region("Chicago", 41.8781, -87.6298, "America/Chicago", -6, 16.0),
    Region("Atlanta", 33.7490, -84.3880, "America/New_York", -5, 22.0),
    # The antimeridian crosses these two. Fiji's clocks are 12 hours ahead; 12 behind differs only
    # in the date and is used because service days begin at or after midnight UTC.
    Region("Taveuni", -16.8500, 179.9800, "Pacific/Fiji", -12, 26.0),
    Region("Semisopochnoi", 51.9500, 179.9000, "America/Adak", -10, 5.0),
)
HOME_REGIONS: Final = 6
"""The first regions hold most routers; the others are far away."""

LATITUDES: Final[Reals] = np.array([region.latitude for region in REGIONS])
LONGITUDES: Final[Reals] = np.array([region.longitude for region in REGIONS])
UTC_OFFSETS: Final[Ints] = np.array([region.utc_offset_hours * HOUR for region in REGIONS])
MEAN_TEMPS: Final[Reals] = np.array([region.mean_temp_c for region in REGIONS])


def wrapped(longitude: Reals) -> Reals:
    """Return longitudes wrapped to -180..180 degrees; those in the range are exactly unchanged."""
    turned = (longitude + _HALF_TURN) % (2 * _HALF_TURN) - _HALF_TURN
    return np.asarray(np.where(np.abs(longitude) <= _HALF_TURN, longitude, turned))


def miles_between(lat_a: Reals, lon_a: Reals, lat_b: Reals, lon_b: Reals) -> Reals:
    """Return distances in miles on a plane: accurate to 0.1% within a region."""
    narrowing = np.cos(np.radians((lat_a + lat_b) / 2))
    north = (lat_b - lat_a) * MILES_PER_DEGREE
    east = (lon_b - lon_a) * MILES_PER_DEGREE * narrowing
    return np.asarray(np.hypot(north, east))
