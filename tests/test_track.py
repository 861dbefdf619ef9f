"""`fleetlake track`: one vehicle's day as valid GPX and GeoJSON."""

import json
import xml.etree.ElementTree as ET
from datetime import UTC, date, datetime, timedelta

import pytest
from typer.testing import CliRunner

from fleetlake.cli import app
from fleetlake.errors import LakeError, UsageError
from fleetlake.exporters.day_track import as_geojson, as_gpx, day_track
from fleetlake.lake import open_lake

DAY, MINUTE = date(2026, 11, 1), timedelta(minutes=1)
NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
NAME = 'Bus <12> & "co"\x07'
GPX = "{http://www.topografix.com/GPX/1/1}"
FIXES = [
    (1, 0, 10.0, 50.0, 30.5, "good"),
    (1, 1, 10.1, 50.1, None, "good"),
    (1, 2, 70.0, 70.0, None, "jump"),
    (1, 60, 11.0, 51.0, None, "good"),
    (2, 0, 20.0, 179.0, None, "good"),
    (2, 1, 21.0, -179.0, None, "good"),
    (3, 0, 1.0, 2.0, None, "good"),
]
"""Router, minutes after noon, latitude, longitude, altitude and quality."""


@pytest.fixture(scope="module")
def driven(module_lake):
    """Return a lake with the fixes and the names of the routers."""
    with open_lake(module_lake) as opened:
        opened.execute(
            "create table marts.location_track_points (router_id bigint, fix_id varchar,"
            " latitude_deg double, longitude_deg double, altitude_m double, speed_kmh double,"
            " rsrp_dbm double, carrier varchar, quality varchar, fix_date date,"
            " fixed_at timestamptz);"
            "create table marts.device_history (router_id bigint, router_name varchar,"
            " valid_from timestamptz)"
        )
        for router, minutes, lat, lon, height, quality in FIXES:
            opened.execute(
                "insert into marts.location_track_points"
                " values (?, ?, ?, ?, ?, 40, -90.5, 'Red', ?, ?, ?)",
                [router, minutes, lat, lon, height, quality, DAY, NOON + minutes * MINUTE],
            )
        names = [(1, "old name", NOON), (1, NAME, NOON + timedelta(days=1))]
        for row in [*names, (2, "Twin", NOON), (3, "twin", NOON), (4, "1", NOON)]:
            opened.execute("insert into marts.device_history values (?, ?, ?)", row)
    return module_lake


@pytest.fixture
def lake(driven):
    with open_lake(driven, read_only=True) as opened:
        yield opened


def test_gpx_has_a_segment_for_each_unbroken_span_with_times_in_utc(lake):
    root = ET.fromstring(as_gpx(day_track(lake, "1", DAY)))

    assert (root.tag, root.get("version")) == (f"{GPX}gpx", "1.1")
    assert root.find(f"{GPX}trk/{GPX}name").text == f"{NAME[:-1]}\N{REPLACEMENT CHARACTER} {DAY}"
    spans = [
        [(float(p.get("lat")), float(p.get("lon")), p.findtext(f"{GPX}time")) for p in span]
        for span in root.iter(f"{GPX}trkseg")
    ]
    assert spans == [
        [(10.0, 50.0, "2026-11-01T12:00:00Z"), (10.1, 50.1, "2026-11-01T12:01:00Z")],
        [(11.0, 51.0, "2026-11-01T13:00:00Z")],
    ]
    assert [e.text for e in root.iter(f"{GPX}ele")] == ["30.5"]


def test_geojson_has_the_line_and_a_point_for_each_fix_longitude_first(lake):
    line, *points = json.loads(as_geojson(day_track(lake, "1", DAY)))["features"]

    assert line["geometry"] == {
        "type": "MultiLineString",
        "coordinates": [[[50.0, 10.0], [50.1, 10.1]]],
    }
    assert line["properties"] == {"router_id": 1, "router_name": NAME, "day": "2026-11-01"}
    assert [p["geometry"]["coordinates"] for p in points] == [[50.0, 10.0], [50.1, 10.1], [51, 11]]
    assert points[0]["properties"] == {
        "time": "2026-11-01T12:00:00Z",
        "speed_kmh": 40.0,
        "rsrp_dbm": -90.5,
        "carrier": "Red",
    }


def test_a_line_over_the_antimeridian_is_cut_there(lake):
    [line, *_] = json.loads(as_geojson(day_track(lake, "2", DAY)))["features"]

    assert line["geometry"]["coordinates"] == [
        [[179.0, 20.0], [180.0, 20.5]],
        [[-180.0, 20.5], [-179.0, 21.0]],
    ]


def test_a_lake_without_marts_says_to_build_them(empty_lake):
    with (
        open_lake(empty_lake, read_only=True) as lake,
        pytest.raises(LakeError, match=r"no tracks yet.*`fleetlake build`"),
    ):
        day_track(lake, "1", DAY)


def test_one_fix_is_a_point_and_no_line(lake):
    [point] = json.loads(as_geojson(day_track(lake, "3", DAY)))["features"]

    assert point["geometry"] == {"type": "Point", "coordinates": [2.0, 1.0]}


def test_a_router_is_found_by_id_before_name_and_by_any_of_its_names(lake):
    assert day_track(lake, "OLD name", DAY).router_id == 1
    assert day_track(lake, NAME, DAY).router_id == 1
    assert day_track(lake, "1", DAY).router_id == 1  # another router has this name

    with pytest.raises(UsageError, match=r"Several routers have, or had, .* twin.*by id: 2, 3"):
        day_track(lake, "twin", DAY)
    for nobody in ("Bus", "1.2", "1e0", " 1"):
        with pytest.raises(UsageError, match=f"There is no router {nobody}"):
            day_track(lake, nobody, DAY)
    with pytest.raises(UsageError, match=r"There is no router twinn\. Did you mean twin\? "):
        day_track(lake, "twinn", DAY)


def test_a_day_without_fixes_says_so_and_names_the_nearest_day(lake):
    with pytest.raises(UsageError, match=r"no fix on 2026-10-01 .* fixes is 2026-11-01"):
        day_track(lake, "1", date(2026, 10, 1))
    with pytest.raises(UsageError, match=r"no fix on 2026-11-01 \(UTC\)\. It has none"):
        day_track(lake, "4", DAY)


@pytest.mark.parametrize("form", ["gpx", "geojson"])
def test_the_command_prints_the_track(driven, lake, monkeypatch, form):
    monkeypatch.setenv("FLEETLAKE_LAKE", str(driven))
    words = ["track", "2", "--day", "2026-11-01", "--format", form]

    done = CliRunner().invoke(app, words)

    assert done.exit_code == 0
    track = day_track(lake, "2", DAY)
    assert done.stdout == (as_gpx(track) if form == "gpx" else as_geojson(track))
