"""Signal: a smooth function of location, carrier and time of day, with a little noise."""

from dataclasses import dataclass

import numpy as np

from fleetsim.draws import Draws
from fleetsim.fleet import SimulatedFleet
from fleetsim.units import DAY, HOUR, Flags, Ints, Reals
from fleetsim.world import trips

_WAVES = ((37.0, 21.0, 0.5), (13.0, 29.0, 0.3), (71.0, 53.0, 0.2))
"""Waves that add up to coverage: radians per degree north, per degree east, and weight."""

FIFTH, HIGH_BAND = 0.4, 0.1
"""Shares of modems that speak 5G, and of those that speak it on the high band too."""


@dataclass(frozen=True)
class Signal:
    """What a modem measures: dBm, dB and percent."""

    rsrp: Reals
    rsrq: Reals
    sinr: Reals
    rssi: Reals
    percent: Ints


def coverage(draws: Draws, carrier: Ints, latitude: Reals, longitude: Reals) -> Reals:
    """Return the coverage of a carrier at a location, from -1 to 1."""
    total = np.zeros(np.shape(latitude))
    for number, (north, east, weight) in enumerate(_WAVES):
        phase = 2 * np.pi * draws.unit("coverage", carrier, number)
        total = total + weight * np.sin(north * latitude + east * longitude + phase)
    return np.asarray(total)


def busyness(fleet: SimulatedFleet, router: Ints, instant: Ints) -> Reals:
    """Return how loaded the cells are at the router's local hour, from 0 to 1."""
    hour = ((instant + fleet.utc_offset[router]) % DAY) / HOUR
    return np.asarray(np.exp(-(((hour - 17.5) / 4.0) ** 2)))


@dataclass(frozen=True)
class Modems:
    """Modems at instants; one whose carrier `failed` has almost no signal."""

    router: Ints
    slot: Ints
    instant: Ints
    failed: Flags


def where(draws: Draws, fleet: SimulatedFleet, router: Ints, instant: Ints) -> tuple[Reals, Reals]:
    """Return latitude and longitude of routers at instants."""
    latitude, longitude = fleet.latitude[router].copy(), fleet.longitude[router].copy()
    rides = fleet.is_vehicle[router]
    if rides.any():
        spots = trips.locate(draws, fleet, router[rides], instant[rides])
        latitude[rides], longitude[rides] = spots.latitude, spots.longitude
    return latitude, longitude


def signal(draws: Draws, fleet: SimulatedFleet, modems: Modems) -> Signal:
    """Return what modems measure wherever their routers are."""
    latitude, longitude = where(draws, fleet, modems.router, modems.instant)
    return signal_at(draws, fleet, modems, latitude, longitude)


def signal_at(
    draws: Draws, fleet: SimulatedFleet, modems: Modems, latitude: Reals, longitude: Reals
) -> Signal:
    """Return what modems measure at known locations."""
    router, slot, instant = modems.router, modems.slot, modems.instant
    cover = coverage(draws, fleet.carrier_of(router, slot, instant), latitude, longitude)
    busy = busyness(fleet, router, instant)
    noise = draws.normal("signal", router, slot, instant)
    indoors = np.where(fleet.is_vehicle[router], 0.0, -6.0)
    rsrp = np.clip(-94 + indoors + 15 * cover - 3 * busy + 1.5 * noise, -127, -55)
    rsrp = np.where(modems.failed, -129.0 + noise, rsrp)
    sinr = np.clip(14 + 0.5 * (rsrp + 94) - 6 * busy + 1.2 * noise, -10, 30)
    rsrq: Reals = np.clip(-9 - 3.5 * busy + 0.15 * (rsrp + 94) + 0.5 * noise, -20.0, -3.0)
    return Signal(
        rsrp=np.round(rsrp, 1),
        rsrq=np.round(rsrq, 1),
        sinr=np.round(sinr, 1),
        rssi=np.round(rsrp + 29 + noise, 1),
        percent=np.clip((rsrp + 125) / 50 * 100, 0, 100).astype(np.int64),
    )
