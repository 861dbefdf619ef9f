"""GeoParquet: points, trip lines and coverage cells, as other readers of such files see them."""

import json
from datetime import UTC, datetime, timedelta

import duckdb
import polars as pl
import pyarrow.parquet
import pytest
from pydantic import SecretStr

from fleetlake.exporters import TARGETS
from fleetlake.exporters.contract import SYNCED_AT
from fleetlake.exporters.export import export, renew
from fleetlake.lake import open_lake
from tests.exporters.targets import listed

START = datetime(2026, 11, 1, tzinfo=UTC)

TRACKS = {
    "plain": [(10.0, 50.0), (11.0, 50.1), (12.0, 50.2), (13.0, 50.3)],
    "over the antimeridian": [(20.0, 179.0), (21.0, -179.0), (22.0, -178.0)],
    "there and back": [(0.0, 179.0), (0.0, -179.0), (0.0, 179.0)],
    "of one point": [(10.0, 50.0), (10.0, 50.0)],
    "unknown": [(None, None), (10.0, 50.0)],
}
"""Latitude and longitude of each fix of a router's only trip; its place here is the router."""
LINES = {
    "plain": "LINESTRING (50 10, 50.1 11, 50.2 12, 50.3 13)",
    "over the antimeridian": "MULTILINESTRING ((179 20, 180 20.5), (-180 20.5, -179 21, -178 22))",
    "there and back": (
        "MULTILINESTRING ((179 0, 180 0), (-180 0, -179 0, -180 0), (180 0, 179 0))"
    ),
    "of one point": None,
    "unknown": None,
}


def number(value):
    return "null" if value is None else f"{value}::double"


@pytest.fixture
def lake(lake_path):
    trips, points = [], []
    for router, fixes in enumerate(TRACKS.values()):
        times = [START + timedelta(minutes=n) for n in range(len(fixes))]
        ends = [number(value) for value in (*fixes[0], *fixes[-1])]
        trips.append(f"({router}, 't', {', '.join(ends)}, '{times[0]}', '{times[-1]}', 1)")
        points += [
            f"({router}, 'fix {n}', {number(lat)}, {number(lon)}, 'good', '{at}')"
            for n, ((lat, lon), at) in enumerate(zip(fixes, times, strict=True))
        ]
    wrong = START + timedelta(seconds=90)
    points += [f"(0, 'jump', 70, 70, 'jump', '{wrong}')"]
    points += [f"(0, 'later', 71, 71, 'good', '{START + timedelta(hours=5)}')"]
    with open_lake(lake_path) as opened:
        opened.execute(
            "create table marts.trips (router_id bigint, trip_id varchar,"
            " start_latitude_deg double,"
            " start_longitude_deg double, end_latitude_deg double, end_longitude_deg double,"
            " started_at timestamptz, ended_at timestamptz, built int);"
            "create table marts.location_track_points (router_id bigint, fix_id varchar,"
            " latitude_deg double, longitude_deg double, quality varchar, fixed_at timestamptz);"
            "create table marts.coverage_grid as select '50.00 10.00' as cell_id, 'Red' as carrier,"
            " 50.005::double as cell_latitude_deg, 10.005::double as cell_longitude_deg"
            " union all select '89.99 -180.00', 'Red', 89.995, -179.995;"
            "create table marts.alert_volume as select 1 as alerts;"
            f"insert into marts.trips values {', '.join(trips)};"
            f"insert into marts.location_track_points values {', '.join(points)}"
        )
    return lake_path


def send(lake, folder, *names):
    with open_lake(lake, read_only=True) as opened:
        done = export(opened, TARGETS["geoparquet"], SecretStr(str(folder)), names)
    return {table.table: table for table in done}


def shapes(folder, table, by):
    """Return each row's geometry as WKT, read back without our code."""
    with duckdb.connect() as connection:
        rows = connection.execute(
            f"select {by}, geometry::varchar from read_parquet({listed(folder / table)})"
        )
        return dict(rows.fetchall())


def test_only_tables_with_places_are_sent_unless_others_are_named(lake, tmp_path):
    assert send(lake, tmp_path / "geo").keys() == {
        "coverage_grid",
        "location_track_points",
        "trips",
    }
    assert send(lake, tmp_path / "geo", "alert_volume").keys() == {"alert_volume"}
    columns = pl.read_parquet(listed(tmp_path / "geo" / "alert_volume")).columns
    assert columns == ["alerts", SYNCED_AT]


def test_a_trip_is_a_line_cut_at_the_antimeridian_and_a_single_point_is_none(lake, tmp_path):
    send(lake, tmp_path / "geo", "trips")

    found = shapes(tmp_path / "geo", "trips", "router_id")

    assert dict(zip(TRACKS, (found[n] for n in range(len(TRACKS))), strict=True)) == LINES


def test_a_fix_is_a_point_and_a_coverage_cell_a_square(lake, tmp_path):
    send(lake, tmp_path / "geo")

    points = shapes(tmp_path / "geo", "location_track_points", "router_id || ' ' || fix_id")
    cells = shapes(tmp_path / "geo", "coverage_grid", "cell_id")

    assert points["0 fix 1"] == "POINT (50.1 11)"
    assert points["4 fix 0"] is None
    assert cells["50.00 10.00"] == "POLYGON ((10 50, 10.01 50, 10.01 50.01, 10 50.01, 10 50))"
    assert cells["89.99 -180.00"].startswith("POLYGON ((-180 89.99, 180 89.99, 180 90")


def test_the_files_are_geoparquet_for_other_readers(lake, tmp_path):
    send(lake, tmp_path / "geo")

    [file] = listed(tmp_path / "geo" / "trips")
    described = json.loads(pyarrow.parquet.read_metadata(file).metadata[b"geo"])
    assert described["primary_column"] == "geometry"
    assert described["columns"]["geometry"]["encoding"] == "WKB"
    assert pl.read_parquet(file).schema["geometry"] == pl.Binary
    assert {"start_latitude_deg", "end_longitude_deg"} <= {*pl.read_parquet(file).columns}


@pytest.mark.proof
def test_a_later_export_sends_only_the_trips_that_changed_with_their_new_lines(lake, tmp_path):
    send(lake, tmp_path / "geo")
    with open_lake(lake) as opened:
        opened.execute(
            "delete from marts.location_track_points where router_id = 0 and fix_id = 'fix 1';"
            "update marts.trips set built = 2 where router_id = 0"
        )

    done = send(lake, tmp_path / "geo")

    assert (done["trips"].sent, done["trips"].full_reason) == (1, None)
    lines = shapes(tmp_path / "geo", "trips", "router_id")
    assert lines[0] == "LINESTRING (50 10, 50.2 12, 50.3 13)"
    assert len(lines) == len(TRACKS)


@pytest.mark.proof
def test_after_an_erasure_the_files_are_written_anew_with_their_geometry(lake, tmp_path):
    send(lake, tmp_path / "geo")
    with open_lake(lake) as opened:
        opened.execute("delete from marts.trips where router_id = 1")
    with open_lake(lake, read_only=True) as opened:
        renew(opened, TARGETS["geoparquet"], SecretStr(str(tmp_path / "geo")))

    lines = shapes(tmp_path / "geo", "trips", "router_id")

    assert lines[0] == LINES["plain"]
    assert 1 not in lines
