"""Compare the marts with what really happened in the simulated world.

Simulates a fleet for some weeks, polls its batteries all the time, ingests everything at the end,
builds, and prints for each mart what was matched, missed and invented, and the largest error in
time. Exits with 1 if something is missed or invented, if a failover is off by more than the
second that alerts are rounded to, if a trip is off by more than the time between two fixes or one
in a thousand of the places where it stood by more than the inaccuracy of fixes, or if a battery is
worn out in the mart or in truth only. `make mart-truth` runs it.
"""

# ruff: noqa: T201 - it is run for what it prints

import argparse
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path

import polars as pl

from fleetlake.lake import open_lake
from fleetlake.marts import build_marts
from tests.marts.mart_truth_attention import is_right_of_attention
from tests.marts.mart_truth_moves import (
    is_right_of_moves,
    is_right_of_owners,
    is_right_of_registrations,
)
from tests.support.mart_truth_fleet import (
    BORN,
    FIX_INTERVAL_S,
    HISTORY,
    POLL,
    Fleet,
    born,
    compare,
    is_matched,
)

ALERT_STAMP_S = 1.001
CLOCK_ERROR_S = 106.0
"""Maximum error of a device's own clock, in seconds, and so of what only its alerts report."""
PLACE_M = 50.0
"""A fix is off by metres; a fix taken while still rolling, by some tens of metres."""

FAILOVERS = """
select t.router_id, t.started_at, t.ended_at, t.data_usage_bytes,
       coalesce(t.overlaps_another, false) as overlaps_another,
       coalesce(t.router_id, e.router_id) as of_router_id,
       e.episode_id, e.source,
       abs(epoch(e.started_at) - epoch(t.started_at)) as start_s_error,
       abs(epoch(e.ended_at) - epoch(t.ended_at)) as end_s_error,
       abs(e.backup_bytes - t.data_usage_bytes) / nullif(t.data_usage_bytes, 0) as bytes_share_error
from truth as t full join marts.failover_episodes as e
on e.router_id = t.router_id and abs(epoch(e.started_at) - epoch(t.started_at)) <= 120
where coalesce(t.started_at, e.started_at) < ?
"""

# A trip under way when the data ends has no end to compare. A trip under way when the data
# begins has no start: it is not in the truth, and is counted separately. A trip driven while the
# router was offline, or that began or ended there, left no fixes. Where a vehicle stood is compared
# if it sent a fix while it stood: one that reports hourly while parked may have left before.
TRIPS = """
select t.router_id, t.started_at, e.trip_id as episode_id, coalesce(t.is_seen, true) as is_seen,
       coalesce(t.router_id, e.router_id) as of_router_id,
       e.started_at as told_start,
       abs(epoch(e.started_at) - epoch(t.started_at)) as start_s_error,
       abs(epoch(e.ended_at) - epoch(t.ended_at)) as end_s_error,
       abs(e.distance_km / 1.609344 - t.distance_miles) / t.distance_miles as distance_share_error,
       case when before.created_at > t.stood_from then
           111195 * sqrt((e.start_latitude_deg - t.from_latitude) ** 2
           + (((e.start_longitude_deg - t.from_longitude + 540) % 360 - 180)
              * cos(radians(t.from_latitude))) ** 2
       ) end as start_m_error,
       case when after.created_at < t.stood_until then
           111195 * sqrt((e.end_latitude_deg - t.to_latitude) ** 2
           + (((e.end_longitude_deg - t.to_longitude + 540) % 360 - 180)
              * cos(radians(t.to_latitude))) ** 2
       ) end as end_m_error
from (
    select *,
    coalesce(lag(ended_at) over router, '-infinity') as stood_from,
    coalesce(lead(started_at) over router, 'infinity') as stood_until,
    not exists (
        select 1 from offline as o
        where o.router_id = truth.router_id
        and o.started_at < truth.ended_at + interval 15 minute
        and coalesce(o.ended_at, 'infinity') > truth.started_at - interval 15 minute
    ) as is_seen
    from truth where ended_at is not null
    window router as (partition by router_id order by started_at)
) as t
asof left join raw.historical_locations as before
on before.router_id = t.router_id and before.created_at <= t.started_at
asof left join raw.historical_locations as after
on after.router_id = t.router_id and after.created_at >= t.ended_at
full join (select * from marts.trips where not is_open) as e
on e.router_id = t.router_id
and e.started_at < t.ended_at and e.ended_at > t.started_at
where coalesce(t.ended_at, e.ended_at) < ?
"""

# Every fix of such a spell is wrong, and no other fix.
JUMPS = """
select t.router_id, p.fixed_at as started_at,
       case when p.quality = 'jump' then p.fix_id end as episode_id
from marts.location_track_points as p left join truth as t
on t.router_id = p.router_id and p.fixed_at >= t.started_at
and p.fixed_at < coalesce(t.ended_at, 'infinity')
where (t.router_id is not null or p.quality = 'jump') and p.fixed_at < ?
"""

STILL_OPEN = timedelta(minutes=65)
"""A trip stays open until a fix shows that its vehicle stands; some report hourly while parked."""

DRIFTING = "with a drifting clock"
KINDS = {
    "that report hourly while parked": pl.col("parked_every_minutes") > 15,
    "that send no speed": ~pl.col("sends_speed"),
    "that send wrong fixes": pl.col("sends_wrong_fixes"),
    "about the antimeridian": pl.col("is_far"),
    DRIFTING: pl.col("has_drifting_clock"),
}
"""Peculiarities of some vehicles, in terms of the simulator's `reporting`."""

BATTERIES = """
select t.battery_id, t.fade, h.battery_id as episode_id, h.predicted_worn_at,
       abs(epoch(h.predicted_worn_at) - epoch(t.reaches_62_at)) / 86400 as error_days,
       abs(epoch(h.worn_at) - epoch(t.reached_62_at)) as worn_error_s,
       (h.worn_at is null) <> (t.reached_62_at is null) as is_wrong
from truth as t left join marts.battery_health as h on h.battery_id = t.battery_id::varchar
where t.reached_62_at is null or t.reached_62_at < ?
"""

OFFLINE = """
select count(*) as spells, sum(epoch(ended_at) - epoch(started_at)) as offline_s
from truth where kind = 'offline' and ended_at is not null
and epoch(ended_at) - epoch(started_at) >= 60
"""


def without_cut(pairs: pl.DataFrame) -> pl.DataFrame:
    """Print how many trips were under way when the history began; return the others.

    The truth has only trips that started later. The fixes of the others start mid-trip.
    """
    first_fix_by = BORN - HISTORY + timedelta(seconds=FIX_INTERVAL_S)
    is_cut = pl.col("router_id").is_null() & (pl.col("told_start") < first_fix_by)
    print(f"trips under way as the history began: {pairs.filter(is_cut).height}")
    return pairs.filter(~is_cut.fill_null(value=False)).drop("told_start")


def is_placed(pairs: pl.DataFrame) -> bool:
    """Return whether 999 in a thousand trips, and all but two of few, are where they were."""
    ends = [pairs[end].drop_nulls() for end in ("start_m_error", "end_m_error")]
    return all((off > PLACE_M).sum() <= max(2, len(off) / 1000) for off in ends)


def is_right_of_each_kind(pairs: pl.DataFrame, reporting: pl.DataFrame) -> bool:
    """Print the trips of each kind of vehicle; return whether all are correct."""
    good = True
    for kind, is_of_kind in KINDS.items():
        routers = reporting.filter(is_of_kind, pl.col("is_vehicle"))["router_id"]
        those = pairs.filter(pl.col("of_router_id").is_in(routers.implode()))
        columns = those.drop("is_seen", "of_router_id")
        good &= is_matched(f"trips of vehicles {kind}", columns, FIX_INTERVAL_S)
        good &= is_placed(those)
    return good


def is_right_of_overlaps(name: str, pairs: pl.DataFrame) -> bool:
    """Print the episodes that overlap another one of a router; return whether all are correct."""
    those = pairs.filter(pl.col("overlaps_another")).drop("of_router_id")
    return is_matched(f"{name} that overlap another", those, ALERT_STAMP_S)


def is_right_of_batteries(pairs: pl.DataFrame) -> bool:
    """Print which batteries are worn out; return whether these are the true ones.

    The dates of the others are judged by `battery_lives`: lives are longer than this fleet's.
    """
    late, wrong = pairs["worn_error_s"].drop_nulls(), pairs["is_wrong"].sum()
    print(f"battery_health: {pairs.height} batteries, {len(late)} worn out, {wrong} wrong")
    if len(late):
        print(f"  seen within {late.max() / 3600:.2f} h at a poll every {POLL}")
    for (fade,), those in pairs.drop_nulls("predicted_worn_at").group_by("fade"):
        print(f"  {fade}: {those.height} dates, median error {those['error_days'].median():.0f} d")
    return wrong == 0 and pairs["episode_id"].null_count() == 0


def check(fleet: Fleet, lake_path: Path) -> bool:
    """Compare every mart that has a truth, and print each result."""
    until = fleet.now() - timedelta(minutes=2)  # younger records may not be visible yet
    outages = fleet.truth("outages")
    with open_lake(lake_path, read_only=True) as lake:
        episodes = compare(lake, fleet.truth("failover_episodes"), FAILOVERS, until)
        good = is_matched("failover_episodes", episodes.drop("of_router_id"), ALERT_STAMP_S)
        good &= is_right_of_overlaps("failover_episodes", episodes)
        good &= is_right_of_moves(fleet, lake, until)
        good &= is_right_of_owners(fleet, lake, until, "failovers")
        offline = outages.filter(pl.col("kind") == "offline")
        pairs = compare(lake, fleet.truth("trips"), TRIPS, until - STILL_OPEN, offline)
        pairs = without_cut(pairs)
        seen = pairs.filter(pl.col("is_seen"))
        good &= is_matched("trips", seen.drop("is_seen", "of_router_id"), FIX_INTERVAL_S)
        good &= is_placed(seen)
        good &= is_right_of_each_kind(seen, fleet.truth("reporting"))
        jumps = compare(lake, fleet.truth("wrong_fixes"), JUMPS, until)
        good &= is_matched("jumps of location_track_points", jumps, 0.0)
        known = {"failover_episodes": episodes, "trips": seen.drop("is_seen")}
        good &= is_right_of_registrations(fleet, lake, known)
        unseen = pairs.filter(~pl.col("is_seen"))
        is_matched("trips beside a spell offline, whose fixes are lost", unseen, FIX_INTERVAL_S)
        lives = fleet.truth("battery_life")
        good &= is_right_of_batteries(compare(lake, lives, BATTERIES, until - POLL))
        good &= is_right_of_attention(fleet, lake)
        real = compare(lake, outages, OFFLINE, until).row(0)
        reported = lake.rows("select sum(offline_s) from marts.device_availability_daily")[0][0]
    print(
        f"device_availability_daily: {reported:,.0f} s offline,"
        f" in truth {real[1]:,.0f} s in {real[0]} spells of a minute or more"
    )
    return good


def check_without_records(fleet: Fleet, lake_path: Path) -> bool:
    """Delete a third of the failover records, and find the episodes by their alerts."""
    with open_lake(lake_path) as lake:
        lake.execute("delete from raw.failovers where hash(uuid) % 3 = 0 and ended_at is not null")
    build_marts(lake_path)
    until = fleet.now() - timedelta(minutes=2)
    with open_lake(lake_path, read_only=True) as lake:
        pairs = compare(lake, fleet.truth("failover_episodes"), FAILOVERS, until)
        owned = is_right_of_owners(fleet, lake, until, "episodes, some of alerts alone,")
    pieced = pairs.filter(pl.col("source") == "alerts").height
    name = f"failover_episodes, {pieced:,} of them with their record taken away"
    drifting = fleet.truth("reporting").filter(KINDS[DRIFTING])["router_id"]
    drifts = pl.col("of_router_id").is_in(drifting.implode())
    good = is_matched(name, pairs.filter(~drifts), ALERT_STAMP_S)
    good &= is_right_of_overlaps(name, pairs.filter(~drifts))
    good &= is_matched(f"{name}, of routers {DRIFTING}", pairs.filter(drifts), CLOCK_ERROR_S)
    return good and owned and pieced > 0


def main() -> int:
    """Run the whole comparison; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--routers", type=int, default=300)
    parser.add_argument("--days", type=int, default=35)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lake", type=Path, help="keep the lake here")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        lake = options.lake or Path(folder) / "lake"
        fleet = born(routers=options.routers, seed=options.seed, lake=lake)
        began = time.monotonic()
        fleet.live(options.days)
        print(f"{options.routers} routers, {options.days} days, {time.monotonic() - began:.0f} s")
        result = build_marts(lake)
        print(f"built in {result.seconds:.0f} s")
        good = check(fleet, lake)
        good &= check_without_records(fleet, lake)
    print("good" if good else "NOT GOOD")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
