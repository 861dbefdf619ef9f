"""What the questions' answers must be, from the simulated world: vehicles and places."""

import math
from collections import defaultdict
from datetime import timedelta
from itertools import pairwise
from statistics import median
from zoneinfo import ZoneInfo

import polars as pl

from tests.marts.question_answers import DAY, Rows, router_names
from tests.marts.question_links import is_at_work, local, offline, spans_of
from tests.marts.question_world import (
    BROKEN,
    PLACE_RADIUS_M,
    UNSURE,
    Between,
    Record,
    World,
    about,
)

MILE_KM = 1.609344
SHORT_MILES, DRIFT_MILES = 0.5, 0.15
BESIDE = timedelta(minutes=16)
"""Fixes are missing while a router is offline, and those around a spell may be 15 minutes apart."""
TRIP_EDGE = timedelta(minutes=16)
"""A trip begins and ends between two fixes; many a parked vehicle reports every 15 minutes."""
FIX_EVERY = timedelta(minutes=1)
"""A vehicle on the road reports this often."""
STILL_OPEN = timedelta(minutes=65)
"""A trip stays open until a fix shows that its vehicle stands; some report hourly while parked."""
CELL_DEG, PLACE_DEG = 0.01, 0.002
DEGREE_M = 111_195.0
NEAR_DEG = 0.0004
"""A stop is some metres off: this near to the edge of a cell, it may be in the next one."""


def trips(world: World) -> pl.DataFrame:
    """Return the trips, and whether their fixes may not show all of each.

    Fixes are lost while a router is offline, and a trip under way lacks the last ones. A trip as
    short as the noise of its fixes needs reported speed, and one below 200 m is drift. A stop
    between two fixes stays `hides`.
    """
    found = world.frame("trips").join(router_names(world), on="router_id")
    stopped = (pl.col("router_id") == world.broken) & (pl.col("started_at") > world.now - BROKEN)
    found = found.filter(~stopped).sort("router_id", "started_at")
    spells = spans_of(offline(world), world)
    unsure = [
        end is None
        or any(a - BESIDE < end and b + BESIDE > start for a, b in spells.get(router, []))
        for router, start, end in found.select("router_id", "started_at", "ended_at").rows()
    ]
    habits = world.frame("reporting").select(
        "router_id", (pl.col("parked_every_minutes") > 15).alias("hides"), "sends_speed"
    )
    found = found.with_columns(pl.Series("unsure", unsure)).join(habits, on="router_id")
    least = pl.when("sends_speed").then(DRIFT_MILES).otherwise(SHORT_MILES)
    is_short = pl.col("distance_miles") < least
    return found.with_columns(
        pl.col("unsure") | is_short,
        local(found, "started_at").alias("local"),
        (pl.col("distance_miles") * MILE_KM).alias("km"),
        (pl.col("ended_at") - pl.col("started_at")).dt.total_seconds().alias("s"),
    )


def fixes(world: World) -> pl.DataFrame:
    """Return the fixes, without those that were tens of kilometres off."""
    found = world.frame("historical_locations").with_columns(
        pl.col("_device").cast(pl.Int64).alias("router_id"), pl.col("created_at").alias("at")
    )
    for router, spells in spans_of(world.frame("wrong_fixes"), world).items():
        for start, end in spells:
            is_wrong = (pl.col("at") >= start) & (pl.col("at") < end)
            found = found.filter(~((pl.col("router_id") == router) & is_wrong))
    return found


def newest_fixes(world: World) -> Rows:
    """Return the newest fix of each router."""
    newest = fixes(world).sort("at").group_by("router_id", maintain_order=True).last()
    return newest.join(router_names(world), on="router_id").to_dicts()


def where_now(world: World) -> Rows:
    """Return the newest fix of each router whose record has no newer place."""
    records = {one["router"]: one["updated_at"] for one in world.frame("locations").to_dicts()}
    return [
        {
            "router_name": one["router_name"],
            "latitude_deg": one["latitude"],
            "longitude_deg": one["longitude"],
            "speed_kmh": None if one["mph"] is None else about(one["mph"] * MILE_KM, 0.01),
            "minutes_old": about((world.now - one["at"]) / timedelta(minutes=1), 2),
        }
        for one in newest_fixes(world)
        if one["router_id"] not in records or one["at"] >= records[one["router_id"]]
    ]


def unlocated(world: World) -> Rows:
    """Return the routers that have sent no fix for a day."""
    return [
        {
            "router_name": one["router_name"],
            "last_fixed_at": one["at"],
            "gap_hours": about((world.now - one["at"]) / timedelta(hours=1), 0.05),
        }
        for one in newest_fixes(world)
        if world.now - one["at"] >= DAY
    ]


def on_the_road(world: World) -> Rows:
    """Return the trips under way, and as unsure those that may be or may not yet be."""
    newest = trips(world).filter(pl.col("ended_at").fill_null(world.now) > world.now - STILL_OPEN)
    return [
        {
            "router_name": one["router_name"],
            "started_at": about(one["started_at"], TRIP_EDGE),
            UNSURE: one["ended_at"] is not None or one["started_at"] > world.now - TRIP_EDGE,
        }
        for one in newest.to_dicts()
    ]


def vehicle_days(world: World) -> Rows:
    """Return the trips of each vehicle and local day; of a day without all fixes, its key."""
    found = []
    days = trips(world).with_columns(pl.col("local").dt.date().alias("local_date"))
    began = world.began + DAY
    for (name, day), own in days.group_by("router_name", "local_date"):
        key: Record = {"router_name": name, "local_date": day}
        if own["unsure"].any() or own["started_at"].min() < began:
            found.append(key | {UNSURE: True})
            continue
        found.append(
            key
            | {
                "trips": own.height,
                "stops": Between(0 if own["hides"].any() else own.height, own.height),
                "distance_km": about(own["km"].sum(), 0.05 * own["km"].sum()),
                "hours_driven": about(own["s"].sum() / 3600, 0.1 + 0.1 * own.height),
                "first_started_at": about(own["started_at"].min(), TRIP_EDGE),
                "last_ended_at": about(own["ended_at"].max(), TRIP_EDGE),
            }
        )
    return found


def unused_for_a_week(world: World) -> Rows:
    """Return the vehicles whose last trip was seven days ago or more."""
    found = []
    for (name, zone), own in trips(world).group_by("router_name", "zone"):
        last = own["local"].max().date()
        days = (world.now.astimezone(ZoneInfo(zone)).date() - last).days
        if days >= 7:
            found.append({"router_name": name, "last_used_date": last, "days_unused": days})
    return found


def after_work(world: World) -> Rows:
    """Return the number and length of the trips that began outside working hours, by vehicle.

    Trips that left not all their fixes may be there or not, and those that began with the working
    hours: a trip is seen from a fix on.
    """
    found = []
    is_off = [~is_at_work(pl.col("local") + by) for by in (-FIX_EVERY, timedelta(), FIX_EVERY)]
    edges = pl.any_horizontal(is_off) & ~pl.all_horizontal(is_off)
    all_ = trips(world).with_columns(pl.col("unsure") | edges)
    for (name,), own in all_.filter(pl.any_horizontal(is_off)).group_by("router_name"):
        sure = own.filter(~pl.col("unsure"))
        found.append(
            {
                "router_name": name,
                "trips": Between(sure.height, own.height + own["unsure"].sum() + 1),
                "km": Between(0.95 * sure["km"].sum(), 1.05 * own["km"].sum() + 20),
            }
        )
    return found


def every_trip(world: World) -> Rows:
    """Return each trip; one that left not all its fixes may be missing or be in two parts."""
    begun = {"started_at": Between(world.began, world.began + TRIP_EDGE), UNSURE: True}
    found: Rows = [begun | {"router_name": name} for name in router_names(world)["router_name"]]
    for one in trips(world).to_dicts():
        if one["unsure"]:
            around = Between(
                one["started_at"] - TRIP_EDGE, (one["ended_at"] or world.now) + TRIP_EDGE
            )
            part = {"router_name": one["router_name"], "started_at": around, UNSURE: True}
            found += [part, dict(part)]
            continue
        found.append(
            {
                "router_name": one["router_name"],
                "started_at": about(one["started_at"], TRIP_EDGE),
                "ended_at": about(one["ended_at"], TRIP_EDGE),
                "km": about(one["km"], 0.05 * one["km"] + 0.5),
            }
        )
    return found


def top_speeds(world: World) -> Rows:
    """Return the highest speed that each vehicle reported; None if it reports none.

    A speed is rounded three times: to hundredths of a fix, tenths of a trip, and ones.
    """
    vehicles = world.frame("reporting").filter("is_vehicle")
    rows = fixes(world).join(vehicles, on="router_id").join(router_names(world), on="router_id")
    fastest = rows.group_by("router_name").agg(pl.col("mph").max() * MILE_KM)
    return [
        {"router_name": name, "kmh": None if top is None else about(top, 0.556)}
        for name, top in fastest.rows()
    ]


def fix_counts(world: World) -> Rows:
    """Count the fixes of each vehicle, wrong ones too."""
    rows = world.frame("historical_locations")
    return (
        rows.group_by(pl.col("_device").cast(pl.Int64).alias("router_id"))
        .agg(pl.len().alias("fixes"))
        .to_dicts()
    )


def coverage(world: World) -> Rows:
    """Return the strength and share of weak fixes of each cell and carrier with ten of them."""
    measured = fixes(world).filter(pl.col("rsrp").is_not_null())
    names = {one["carrier_id"]: one["carrier"] for one in world.records("net_devices")}
    cells = measured.group_by(
        pl.col("carrier_id").replace_strict(names).alias("carrier"),
        *(
            (((pl.col(side) / CELL_DEG).floor() + 0.5) * CELL_DEG)
            .round(6)
            .alias(f"cell_{side}_deg")
            for side in ("latitude", "longitude")
        ),
    ).agg(
        pl.len().alias("rsrp_fixes"),
        pl.col("rsrp").mean(),
        (100 * (pl.col("rsrp") < -110).sum() / pl.len()).alias("weak"),
    )
    return [
        {
            name: one[name]
            for name in ("carrier", "cell_latitude_deg", "cell_longitude_deg", "rsrp_fixes")
        }
        | {"mean_rsrp_dbm": about(one["rsrp"], 0.051), "weak_pct": about(one["weak"], 0.051)}
        for one in cells.filter(pl.col("rsrp_fixes") >= 10).to_dicts()
    ]


def metres(a: tuple[float, float], b: tuple[float, float]) -> float:
    """Return the distance of two near places."""
    east = (b[1] - a[1]) * math.cos(math.radians(a[0]))
    return DEGREE_M * math.hypot(b[0] - a[0], east)


def stops(world: World) -> Rows:
    """Return where and how long each vehicle stood between two trips, and after the last one."""
    found = []
    for (router,), own in trips(world).group_by("router_id"):
        rows = own.to_dicts()
        for before, after in pairwise([*rows, None]):
            if before is None or before["ended_at"] is None:
                continue
            left_at = world.now if after is None else after["started_at"]
            is_hidden = before["hides"] and left_at - before["ended_at"] < STILL_OPEN
            is_unsure = after is None or before["unsure"] or after["unsure"] or is_hidden
            found.append(
                {
                    "router_id": router,
                    "spot": (before["to_latitude"], before["to_longitude"]),
                    "s": (left_at - before["ended_at"]).total_seconds(),
                    "unsure": is_unsure,
                }
            )
    return found


def place_visits(world: World) -> Rows:
    """Count the stops at each place; those that left not all their fixes may be there or not."""
    found = []
    for name, *depot in world.places():
        here = [s for s in stops(world) if metres(tuple(depot), s["spot"]) < PLACE_RADIUS_M]
        sure = [s for s in here if not s["unsure"]]
        found.append(
            {
                "place_name": name,
                "visits": Between(len(sure), len(here) + sum(s["unsure"] for s in here) + 1),
                "vehicles": len({s["router_id"] for s in here}),
                "median_minutes": about(median(s["s"] for s in sure) / 60, 16.51),
            }
        )
    return found


def longest_stops(world: World) -> Rows:
    """Return the stops in each cell; some near its edge may be in the next one."""
    found: dict[str, Rows] = defaultdict(list)
    for stop in stops(world):
        lat, lon = stop["spot"]
        cells = {
            " ".join(f"{math.floor(side / PLACE_DEG) * PLACE_DEG:.3f}" for side in (a, b))
            for a in (lat - NEAR_DEG, lat + NEAR_DEG)
            for b in (lon - NEAR_DEG, lon + NEAR_DEG)
        }
        for cell in cells:
            found[cell].append(stop | {"unsure": stop["unsure"] or len(cells) > 1})
    rows = []
    for cell, here in found.items():
        sure = [one for one in here if not one["unsure"]]
        rows.append(
            {
                "place_id": cell,
                "stops": Between(len(sure), 2 * len(here)),
                "vehicles": Between(
                    len({s["router_id"] for s in sure}), len({s["router_id"] for s in here})
                ),
                "hours": Between(
                    sum(s["s"] for s in sure) / 3600 - 0.3 * len(sure),
                    sum(s["s"] for s in here) / 3600 + 0.3 * len(here),
                ),
                UNSURE: not sure,
            }
        )
    return rows
