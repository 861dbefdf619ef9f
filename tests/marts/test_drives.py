"""Trips of vehicles that drive, report and err as real ones do, against how they were driven."""

import shutil
from pathlib import Path

import pytest

from fleetlake.lake import open_lake
from fleetsim.drives import WAYS
from tools.compare_tracks import PAGE, Found, Span, Vehicle, build, table, vehicles

pytestmark = [pytest.mark.release, pytest.mark.xdist_group("marts")]

SEEDS = 3
TOLERANCE_S = 120
SHARE = 0.05

Built = tuple[list[Vehicle], Found, dict[int, int]]
"""The vehicles, their trips and stops, and by number of the vehicle its fixes rated wrong."""


@pytest.fixture(scope="module")
def built(empty_lake, tmp_path_factory) -> Built:
    """Build the trips of all ways and seeds at once."""
    lake = Path(shutil.copytree(empty_lake, tmp_path_factory.mktemp("drives") / "lake"))
    driven = [*vehicles(SEEDS)]
    found = build(lake, driven)
    with open_lake(lake, read_only=True) as opened:
        wrong = opened.rows(
            "select router_id, count(*) from marts.location_track_points"
            " where quality <> 'good' group by 1"
        )
    return driven, found, dict(wrong)


def _misfit(driven: Vehicle, trips: list[Span]) -> str | None:
    """Return how the trips built differ from those driven, if they do."""
    if len(trips) != len(driven.trips):
        return f"{len(trips)} trips instead of {len(driven.trips)}"
    for (started, ended, metres, _), (trip, seen) in zip(trips, driven.trips, strict=True):
        if abs(started - trip.started) > TOLERANCE_S:
            return f"a trip starts {started - trip.started:+.0f} s off"
        if abs(ended - trip.ended) > TOLERANCE_S:
            return f"a trip ends {ended - trip.ended:+.0f} s off"
        if (
            not min(seen, trip.metres) * (1 - SHARE)
            <= metres
            <= max(seen, trip.metres) * (1 + SHARE)
        ):
            return f"{metres:.0f} m instead of {trip.metres:.0f} m ({seen:.0f} m between fixes)"
    return None


@pytest.mark.parametrize("name", WAYS)
def test_trips_are_those_driven_however_they_are_reported(built, name):
    driven, found, _ = built
    misfits = [
        _misfit(vehicle, found.get((number, "trip"), []))
        for number, vehicle in enumerate(driven)
        if vehicle.way.name == name
    ]

    assert misfits == [None] * SEEDS


@pytest.mark.parametrize("name", WAYS)
def test_coherent_fixes_are_never_rated_wrong(built, name):
    driven, _, wrong = built
    rated = [wrong.get(n, 0) for n, vehicle in enumerate(driven) if vehicle.way.name == name]

    assert rated == [0] * SEEDS


@pytest.mark.parametrize("kind", ["trip", "stop"])
def test_the_page_about_tracks_has_the_measured_rows(built, kind):
    driven, found, _ = built
    first = {
        (number // SEEDS, of): spans for (number, of), spans in found.items() if number % SEEDS == 0
    }
    _, _, *rows = table(kind, driven[::SEEDS], {"fleetlake": first}).splitlines()

    assert [row for row in rows if row not in PAGE.read_text("utf-8")] == []
