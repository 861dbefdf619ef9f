"""Find trips and stops in the fixes of a CSV file with trackintel, in its own environment.

Usage: trackintel_run.py FIXES OUT RADIUS_M STOP_S GAP_S SHORTEST_M. It writes CSV, one row per trip
or stop: `vehicle, kind, started_s, ended_s, metres`.
"""

import sys

import geopandas as gpd
import pandas as pd
from trackintel import Positionfixes
from trackintel.geogr import calculate_haversine_length, point_haversine_dist


def main(fixes: str, out: str, limits: list[float]) -> None:
    """Read, find, write."""
    radius_m, stop_s, gap_s, shortest_m = limits
    read = pd.read_csv(fixes).rename(columns={"vehicle": "user_id"})
    read["tracked_at"] = pd.to_datetime(read["at_s"], unit="s", utc=True)
    places = gpd.points_from_xy(read["longitude"], read["latitude"])
    track = Positionfixes(
        gpd.GeoDataFrame(read[["user_id", "tracked_at"]], geometry=places, crs="EPSG:4326")
    )
    gap = gap_s / 60
    track, stops = track.generate_staypoints(
        dist_threshold=radius_m, time_threshold=stop_s / 60, gap_threshold=gap, include_last=True
    )
    track, legs = track.generate_triplegs(stops, method="overlap_staypoints", gap_threshold=gap)
    stops["is_activity"] = True  # each stop of ours ends a trip
    stops, legs, trips = legs.generate_trips(stops, gap_threshold=gap)

    legs["metres"] = calculate_haversine_length(legs)
    points = legs.geometry.get_coordinates().join(legs["trip_id"])
    first = points.groupby("trip_id").transform("first")
    points["far"] = point_haversine_dist(first["x"], first["y"], points["x"], points["y"])
    trips["metres"] = legs.groupby("trip_id")["metres"].sum()
    trips = trips[points.groupby("trip_id")["far"].max().reindex(trips.index) >= shortest_m]

    found = pd.concat([trips.assign(kind="trip"), stops.assign(kind="stop", metres=0.0)])
    for column in ("started", "finished"):
        found[f"{column}_s"] = (
            found[f"{column}_at"] - pd.Timestamp(0, tz="UTC")
        ).dt.total_seconds()
    found = found.rename(columns={"user_id": "vehicle", "finished_s": "ended_s"})
    columns = ["vehicle", "kind", "started_s", "ended_s", "metres"]
    pd.DataFrame(found[columns]).to_csv(out, index=False)


if __name__ == "__main__":
    main(*sys.argv[1:3], [float(limit) for limit in sys.argv[3:]])
