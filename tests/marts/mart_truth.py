"""Hold the marts against what the simulated world knows to have happened.

Lets a fleet live for some weeks, polls its batteries all along, ingests everything at the end,
builds, and prints for each mart what was matched, missed and invented, and the worst error in
time. Exits with 1 when something is missed or invented, a failover is off by more than the
second that alerts are stamped to, a trip by more than the time between two fixes or one in a
hundred of its ends by more than fixes are inexact, or fewer than nine in ten batteries reach
their end within the interval stated. `make mart-truth` runs it.
"""

# ruff: noqa: T201 - it is run for what it prints

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import polars as pl

from fleetlake.lake import Lake, open_lake
from fleetlake.loading.ingest import ingest, raise_worst
from fleetlake.marts import build_marts
from fleetlake.settings import Settings
from fleetsim.app import create_app
from fleetsim.options import SimulatorOptions

KEYS = {
    "portal_api_id": "portal-id",
    "portal_api_key": "portal-key",
    "mgr_api_id": "admin-id",
    "mgr_api_key": "admin-key",
}
BORN = datetime(2026, 5, 1, tzinfo=UTC)
POLL = timedelta(hours=6)
POLLED = ["accounts", "batteries", "groups", "net_devices", "routers"]
ALERT_STAMP_S = 1.001
CLOCK_ERROR_S = 106.0
"""By how much a device's own clock is off at most, in seconds, so what only its alerts tell."""
FIX_INTERVAL_S = 61.0
"""A moving vehicle takes a fix a minute, each up to a second late."""
BYTES_SHARE = 0.01
"""The newest samples of a month may not be visible yet."""
PLACE_M = 50.0
"""A fix is metres off, and one taken while still rolling some tens of metres."""

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

# A trip still under way when the data ends has no end to compare; one driven while the router
# was offline, or from or to such a spell, left no fixes to tell of it.
TRIPS = """
select t.router_id, t.started_at, e.trip_id as episode_id, coalesce(t.is_seen, true) as is_seen,
       coalesce(t.router_id, e.router_id) as of_router_id,
       abs(epoch(e.started_at) - epoch(t.started_at)) as start_s_error,
       abs(epoch(e.ended_at) - epoch(t.ended_at)) as end_s_error,
       abs(e.distance_km / 1.609344 - t.distance_miles) / t.distance_miles as distance_share_error,
       111195 * sqrt((e.start_latitude_deg - t.from_latitude) ** 2
           + (((e.start_longitude_deg - t.from_longitude + 540) % 360 - 180)
              * cos(radians(t.from_latitude))) ** 2
       ) as start_m_error,
       111195 * sqrt((e.end_latitude_deg - t.to_latitude) ** 2
           + (((e.end_longitude_deg - t.to_longitude + 540) % 360 - 180)
              * cos(radians(t.to_latitude))) ** 2
       ) as end_m_error
from (
    select *, not exists (
        select 1 from offline as o
        where o.router_id = truth.router_id
        and o.started_at < truth.ended_at + interval 15 minute
        and coalesce(o.ended_at, 'infinity') > truth.started_at - interval 15 minute
    ) as is_seen
    from truth where ended_at is not null
) as t
full join (select * from marts.trips where not is_open) as e
on e.router_id = t.router_id
and e.started_at < t.ended_at and e.ended_at > t.started_at
where coalesce(t.ended_at, e.ended_at) < ?
"""

# Every fix of such a spell is wrong, and no other is.
JUMPS = """
select t.router_id, p.fixed_at as started_at,
       case when p.quality = 'jump' then p.fix_id end as episode_id
from marts.location_track_points as p left join truth as t
on t.router_id = p.router_id and p.fixed_at >= t.started_at
and p.fixed_at < coalesce(t.ended_at, 'infinity')
where (t.router_id is not null or p.quality = 'jump') and p.fixed_at < ?
"""

# What a mart says of the interface that took over, and of those that carried a month's traffic.
# No poll tells of a change before the first one after it: what happened meanwhile is unseen.
BACKUPS = """
select t.*, t.to_net_device_id as device, e.episode_id,
       e.to_interface = t.to_uid and e.backup_net_device_id = t.to_net_device_id
           and e.to_carrier = t.to_carrier as is_right
from truth as t inner join marts.failover_episodes as e
on e.router_id = t.router_id and e.source = 'record'
and abs(epoch(e.started_at) - epoch(t.started_at)) <= 1
where t.started_at < ?
"""

# As the records of the failovers tell it, and where those are lost as of the polls.
OWNERS = """
select e.router_id as device, e.started_at, e.episode_id,
       e.account_id = t.account_id and e.group_id is not distinct from t.group_id as is_right
from truth as t inner join marts.failover_episodes as e
on e.router_id = t.router_id and e.started_at >= t.started_at
and e.started_at < coalesce(t.ended_at, 'infinity')
where e.started_at < ?
"""

MONTHS = """
with sums as (
    select net_device_id, date_trunc('month', created_at)::date as month_date,
           sum(bytes) as total_bytes, max(created_at) as last_sampled_at
    from offline where created_at < ? group by all
)
select t.net_device_id as device, p.router_id as of_router_id, t.last_sampled_at as started_at,
       m.net_device_id as episode_id,
       m.router_id = p.router_id and m.interface = p.uid and m.carrier = p.carrier as is_right,
       abs(m.total_bytes - t.total_bytes) / nullif(t.total_bytes, 0) as bytes_share_error
from sums as t
left join truth as p on p.net_device_id = t.net_device_id and t.last_sampled_at >= p.started_at
and t.last_sampled_at < coalesce(p.ended_at, 'infinity')
full join (
    select * from marts.data_usage_month
    where net_device_id in (select net_device_id from sums)
) as m on m.net_device_id = t.net_device_id and m.month_date = t.month_date
"""

DRIFTING = "with a drifting clock"
KINDS = {
    "that report hourly while parked": pl.col("parked_every_minutes") > 15,
    "that send no speed": ~pl.col("sends_speed"),
    "that send wrong fixes": pl.col("sends_wrong_fixes"),
    "about the antimeridian": pl.col("is_far"),
    DRIFTING: pl.col("has_drifting_clock"),
}
"""What is odd about some vehicles, in terms of how the simulator says that they report."""

INTERFACE_KINDS = {
    "that move with their name": pl.col("kind") == "moves with its name",
    "that take over a name": pl.col("kind") == "takes over the name of another",
    "that change ports": pl.col("kind") == "changes ports within its router",
    "that were or come to be in a drawer": pl.col("kind") == "changes places with one in a drawer",
    "that get other SIM cards": pl.col("swaps_sim"),
}
"""How some modems change, in terms of the simulator's `interface_spans`."""

BATTERIES = """
with lives as (
    select *,
           told_at + to_seconds((health_now_pct - 62) / points_per_day * 86400) as will_be_worn_at
    from truth
)
select t.battery_id, h.battery_id as episode_id, h.predicted_worn_at,
       t.will_be_worn_at between h.predicted_worn_from and h.predicted_worn_until as is_within,
       abs(epoch(h.predicted_worn_at) - epoch(t.will_be_worn_at)) / 86400 as error_days,
       (epoch(h.predicted_worn_until) - epoch(h.predicted_worn_from)) / 2 / 86400 as margin_days,
       abs(epoch(h.worn_at) - epoch(t.reached_62_at)) as worn_error_s
from lives as t left join marts.battery_health as h on h.battery_id = t.battery_id::varchar
"""

OFFLINE = """
select count(*) as spells, sum(epoch(ended_at) - epoch(started_at)) as offline_s
from truth where kind = 'offline' and ended_at is not null
and epoch(ended_at) - epoch(started_at) >= 60
"""


class Fleet:
    """A simulated service in this process, its clock moved by hand."""

    def __init__(self, *, routers: int, seed: int, lake: Path) -> None:
        options = SimulatorOptions(routers=routers, days=0.01, seed=seed, now=BORN, speed=0)
        self.transport = httpx.ASGITransport(app=create_app(options))
        self.settings = Settings(
            base_url="http://localhost/api/v2/",
            lake=lake,
            calls_per_minute=0,
            clock="service",
            **KEYS,
        )

    def ask(self, method: str, path: str, **request: Any) -> httpx.Response:
        """Return the answer to one request."""

        async def send() -> httpx.Response:
            async with httpx.AsyncClient(
                transport=self.transport, base_url="http://localhost", timeout=None
            ) as client:
                return await client.request(method, path, **request)

        return asyncio.run(send())

    def live(self, days: int) -> None:
        """Let the days pass, polling the batteries all along; then ingest everything."""
        polls = int(timedelta(days=days) / POLL)
        for poll in range(polls):
            print(f"\r  poll {poll + 1} of {polls}", end="", file=sys.stderr, flush=True)
            self.ask("POST", "/sim/clock", json={"advance_seconds": POLL.total_seconds()})
            raise_worst(ingest(self.settings, POLLED, transport=self.transport))
        print("\n  everything else", file=sys.stderr)
        raise_worst(ingest(self.settings, [], transport=self.transport))

    def truth(self, name: str, **parameters: str) -> pl.DataFrame:
        """Return what really happened."""
        answer = self.ask("GET", f"/sim/truth/{name}", params=parameters)
        lines = answer.text.splitlines()
        frame = pl.DataFrame([json.loads(line) for line in lines], infer_schema_length=None)
        times = [c for c in frame.columns if c.endswith("_at") and frame.schema[c] == pl.String]
        return frame.with_columns(pl.col(times).str.to_datetime(time_unit="us", time_zone="UTC"))

    def now(self) -> datetime:
        """Return the service's clock."""
        return datetime.fromisoformat(self.ask("GET", "/sim/state").json()["now"])


def compare(
    lake: Lake, truth: pl.DataFrame, sql: str, until: datetime, offline: pl.DataFrame | None = None
) -> pl.DataFrame:
    """Return the join of truth and mart, up to an instant."""
    spells = truth if offline is None else offline
    with lake.view("truth", truth.to_arrow()), lake.view("offline", spells.to_arrow()):
        return lake.execute(sql, [until] if "?" in sql else None).pl()


def is_matched(name: str, pairs: pl.DataFrame, at_most_s: float) -> bool:
    """Print matched, missed and invented with the errors; return whether all is as it should be."""
    missed = pairs.filter(pl.col("episode_id").is_null()).height
    invented = pairs.filter(pl.col("router_id").is_null()).height
    real = pairs.drop_nulls("router_id")
    twice = real.height - real.select("router_id", "started_at").unique().height
    print(
        f"{name}: {pairs.height - missed - invented:,} matched, {missed} missed, "
        f"{invented} invented, {twice} matched twice"
    )
    off = {e: pairs[e].drop_nulls() for e in pairs.columns if e.endswith("_error")}
    for error, values in off.items():
        if len(values):
            print(
                f"  {error.removesuffix('_error')} off by: median {values.median():.3f}, "
                f"99% below {values.quantile(0.99):.3f}, worst {values.max():.3f}"
            )
    worst_s = max((v.max() for e, v in off.items() if "_s_" in e and len(v)), default=0.0)
    return missed == invented == twice == 0 and worst_s <= at_most_s


def is_placed(pairs: pl.DataFrame) -> bool:
    """Return whether 99 in a hundred trips begin and end where they really did."""
    ends = [pairs[end].drop_nulls() for end in ("start_m_error", "end_m_error")]
    return all((off.quantile(0.99) or 0.0) <= PLACE_M for off in ends)


def is_right_of_each_kind(pairs: pl.DataFrame, reporting: pl.DataFrame) -> bool:
    """Print the trips of each kind of vehicle; return whether all are as they should be."""
    good = True
    for kind, is_of_kind in KINDS.items():
        routers = reporting.filter(is_of_kind, pl.col("is_vehicle"))["router_id"]
        those = pairs.filter(pl.col("of_router_id").is_in(routers.implode()))
        columns = those.drop("is_seen", "of_router_id")
        good &= is_matched(f"trips of vehicles {kind}", columns, FIX_INTERVAL_S)
        good &= is_placed(those)
    return good


def polls_unseen(spans: pl.DataFrame, key: str, now: datetime) -> pl.DataFrame:
    """Return from when to when each change of a modem or router was not yet seen by a poll."""
    changes = spans.filter(pl.col("started_at") > spans["started_at"].min())
    since = (pl.col("started_at") - BORN).dt.total_microseconds()
    poll = POLL // timedelta(microseconds=1)
    seen = pl.lit(BORN) + pl.duration(microseconds=(since // poll + 1) * poll)
    return changes.select(
        pl.col(key).alias("device"),
        pl.col("started_at").alias("changed_at"),
        pl.min_horizontal(seen, pl.lit(now)).alias("seen_at"),
    )


def is_right_as_of(name: str, pairs: pl.DataFrame, unseen: pl.DataFrame) -> bool:
    """Print how often a mart says what held at the time of an event; return if always.

    What happened between a change and the poll that saw it is told apart.
    """
    gaps = pairs.join(unseen, on="device")
    inside = (pl.col("started_at") >= pl.col("changed_at")) & (
        pl.col("started_at") < pl.col("seen_at")
    )
    hidden = gaps.filter(inside).select("device", "started_at").unique()
    known = pairs.join(hidden, on=["device", "started_at"], how="anti")
    right = pl.col("is_right").fill_null(value=False)
    matched, hits = known.filter(right).height, pairs.height - known.height
    missed = known.filter(pl.col("episode_id").is_null()).height
    print(
        f"{name}: {matched:,} matched, {missed} missed, {known.height - matched - missed} wrong, "
        f"{hits} between a change and its poll"
    )
    return matched == known.height


def is_right_of_moves(fleet: Fleet, lake: Lake, until: datetime) -> bool:
    """Print the backups and months of each kind of modem; return whether all are right."""
    spans = fleet.truth("interface_spans")
    unseen = polls_unseen(spans, "net_device_id", fleet.now())
    backups = compare(lake, fleet.truth("failover_episodes"), BACKUPS, until)
    good = is_right_as_of("failover_episodes by backup", backups, unseen)
    changing = spans.filter(pl.any_horizontal(*INTERFACE_KINDS.values()))
    moved = changing["net_device_id"].unique().sort().to_list()
    # Bytes in the two minutes left out above would differ, and every sample is visible by then.
    samples = pl.concat(usage for device in moved for usage in usage_of(fleet, device))
    months = compare(lake, spans, MONTHS, fleet.now(), samples)
    print(f"data_usage_month: bytes off by at most {months['bytes_share_error'].max():.6f}")
    good &= (months["bytes_share_error"].max() or 0.0) < BYTES_SHARE
    for kind, is_of_kind in INTERFACE_KINDS.items():
        devices = spans.filter(is_of_kind)["net_device_id"].unique().implode()
        for name, pairs in (("failovers to", backups), ("months of", months)):
            those = pairs.filter(pl.col("device").is_in(devices))
            good &= is_right_as_of(f"  {name} modems {kind}", those, unseen)
    return good


def is_right_of_owners(fleet: Fleet, lake: Lake, until: datetime, source: str) -> bool:
    """Print how often episodes have the account and group of their time; return if always."""
    spans = fleet.truth("router_spans")
    unseen = polls_unseen(spans, "router_id", fleet.now())
    pairs = compare(lake, spans, OWNERS, until)
    good = True
    for kind in ("stays", "changes account", "changes group", "is renamed"):
        routers = spans.filter(pl.col("kind") == kind)["router_id"].unique().implode()
        those = pairs.filter(pl.col("device").is_in(routers))
        good &= is_right_as_of(f"  owners of {source} of a router that {kind}", those, unseen)
    return good


def is_right_of_overlaps(name: str, pairs: pl.DataFrame) -> bool:
    """Print the episodes that overlap another of their router; return whether all are right."""
    those = pairs.filter(pl.col("overlaps_another")).drop("of_router_id")
    return is_matched(f"{name} that overlap another", those, ALERT_STAMP_S)


def usage_of(fleet: Fleet, device: int) -> Iterator[pl.DataFrame]:
    """Yield when each usage sample of an interface was taken, and its bytes, if there is any."""
    samples = fleet.truth("net_device_usage_samples", device=str(device))
    if samples.is_empty():
        return
    yield samples.select(
        pl.lit(device).alias("net_device_id"),
        "created_at",
        (pl.col("bytes_in") + pl.col("bytes_out")).alias("bytes"),
    )


def is_foretold(pairs: pl.DataFrame) -> bool:
    """Print how many predictions hold; return whether nine of ten do."""
    predicted = pairs.drop_nulls("predicted_worn_at")
    late = pairs["worn_error_s"].drop_nulls()
    print(
        f"battery_health: {pairs.height} batteries, {predicted.height} predictions, "
        f"{predicted['is_within'].sum()} within the stated interval"
    )
    for what in ("error", "margin") if predicted.height else ():
        days = predicted[f"{what}_days"]
        print(f"  {what} in days: median {days.median():.1f}, worst {days.max():.1f}")
    if len(late):
        print(
            f"  {len(late)} worn out, seen within {late.max() / 3600:.2f} h at a poll every {POLL}"
        )
    is_true = predicted["is_within"].mean() or 0.0
    return is_true >= 0.9 and pairs["episode_id"].null_count() == 0


def check(fleet: Fleet, lake_path: Path) -> bool:
    """Compare every mart that has a truth; print as it goes."""
    now = fleet.now()
    until = now - timedelta(minutes=2)  # younger records may not be visible yet
    outages = fleet.truth("outages")
    with open_lake(lake_path, read_only=True) as lake:
        pairs = compare(lake, fleet.truth("failover_episodes"), FAILOVERS, until)
        good = is_matched("failover_episodes", pairs.drop("of_router_id"), ALERT_STAMP_S)
        good &= is_right_of_overlaps("failover_episodes", pairs)
        good &= is_right_of_moves(fleet, lake, until)
        good &= is_right_of_owners(fleet, lake, until, "failovers")
        offline = outages.filter(pl.col("kind") == "offline")
        pairs = compare(lake, fleet.truth("trips"), TRIPS, until, offline)
        seen = pairs.filter(pl.col("is_seen"))
        good &= is_matched("trips", seen.drop("is_seen", "of_router_id"), FIX_INTERVAL_S)
        good &= is_placed(seen)
        good &= is_right_of_each_kind(seen, fleet.truth("reporting"))
        jumps = compare(lake, fleet.truth("wrong_fixes"), JUMPS, until)
        good &= is_matched("jumps of location_track_points", jumps, 0.0)
        unseen = pairs.filter(~pl.col("is_seen"))
        is_matched("trips beside a spell offline, whose fixes are lost", unseen, FIX_INTERVAL_S)
        lives = fleet.truth("battery_life").with_columns(pl.lit(now).alias("told_at"))
        good &= is_foretold(compare(lake, lives, BATTERIES, until))
        real = compare(lake, outages, OFFLINE, until).row(0)
        told = lake.rows("select sum(offline_s) from marts.device_availability_daily")[0][0]
    print(
        f"device_availability_daily: {told:,.0f} s offline,"
        f" in truth {real[1]:,.0f} s in {real[0]} spells of a minute or more"
    )
    return good


def check_without_records(fleet: Fleet, lake_path: Path) -> bool:
    """Lose a third of the failover records, and find the episodes by their alerts."""
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
    """Run it all; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--routers", type=int, default=300)
    parser.add_argument("--days", type=int, default=35)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lake", type=Path, help="keep the lake here")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        lake = options.lake or Path(folder) / "lake"
        fleet = Fleet(routers=options.routers, seed=options.seed, lake=lake)
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
