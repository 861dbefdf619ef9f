"""Hold the marts against what the simulated world knows to have happened.

Lets a fleet live for some weeks, polls its batteries all along, ingests everything at the end,
builds, and prints for each mart what was matched, missed and invented, and the worst error in
time. Exits with 1 when something is missed or invented. `make mart-truth` runs it.
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

from fleetlake.ingest import ingest, raise_worst
from fleetlake.lake import Lake, open_lake
from fleetlake.marts import build_marts
from fleetlake.settings import Settings
from fleetlake.simulator import SimulatorOptions, create_app

KEYS = {
    "portal_api_id": "portal-id",
    "portal_api_key": "portal-key",
    "mgr_api_id": "admin-id",
    "mgr_api_key": "admin-key",
}
BORN = datetime(2026, 5, 1, tzinfo=UTC)
POLL = timedelta(hours=6)

FAILOVERS = """
select t.router_id, t.started_at, t.ended_at, t.data_usage_bytes,
       e.episode_id, e.source,
       abs(epoch(e.started_at) - epoch(t.started_at)) as start_error_s,
       abs(epoch(e.ended_at) - epoch(t.ended_at)) as end_error_s,
       abs(e.backup_bytes - t.data_usage_bytes) / nullif(t.data_usage_bytes, 0) as bytes_error
from truth as t full join marts.failover_episodes as e
on e.router_id = t.router_id and abs(epoch(e.started_at) - epoch(t.started_at)) <= 60
where coalesce(t.started_at, e.started_at) < ?
"""

# A trip still under way when the data ends has no end to compare; one driven while the router
# was offline, or from or to such a spell, left no fixes to tell of it.
TRIPS = """
select t.router_id, t.started_at, e.trip_id as episode_id, coalesce(t.is_seen, true) as is_seen,
       abs(epoch(e.started_at) - epoch(t.started_at)) as start_error_s,
       abs(epoch(e.ended_at) - epoch(t.ended_at)) as end_error_s,
       abs(e.distance_km / 1.609344 - t.distance_miles) / t.distance_miles as distance_error
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
            base_url="http://localhost/api/v2/", lake=lake, calls_per_minute=0, **KEYS
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
        for _ in range(int(timedelta(days=days) / POLL)):
            self.ask("POST", "/sim/clock", json={"advance_seconds": POLL.total_seconds()})
            raise_worst(ingest(self.settings, ["batteries"], transport=self.transport))
        raise_worst(ingest(self.settings, [], transport=self.transport))

    def truth(self, name: str) -> pl.DataFrame:
        """Return what really happened."""
        lines = self.ask("GET", f"/sim/truth/{name}").text.splitlines()
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


def matches(name: str, pairs: pl.DataFrame, *errors: str) -> Iterator[bool]:
    """Print matched, missed and invented with the worst errors; yield whether all matched."""
    missed = pairs.filter(pl.col("episode_id").is_null()).height
    invented = pairs.filter(pl.col("router_id").is_null()).height
    once = pairs.height - pairs.select("router_id", "started_at").unique().height
    worst = "; ".join(
        f"{e} median {pairs[e].median():.3f}, 99% below {pairs[e].quantile(0.99):.3f},"
        f" worst {pairs[e].max():.3f}"
        for e in errors
        if pairs[e].max() is not None
    )
    found = pairs.height - missed - invented
    print(f"{name}: {found} matched, {missed} missed, {invented} invented; {worst}")
    yield missed == invented == 0 and (once == 0 or invented > 0)


def check_batteries(pairs: pl.DataFrame) -> bool:
    """Print how many predictions hold; return whether nine of ten do."""
    predicted = pairs.filter(pl.col("predicted_worn_at").is_not_null())
    within = predicted["is_within"].mean() or 0.0
    print(
        f"battery_health: {pairs.height} batteries, {predicted.height} predictions, "
        f"{within:.1%} within the stated interval; error median "
        f"{predicted['error_days'].median():.2f} days, margin median "
        f"{predicted['margin_days'].median():.2f} days; "
        f"{pairs['worn_error_s'].count()} worn out, noticed at most "
        f"{(pairs['worn_error_s'].max() or 0) / 3600:.2f} hours late (polled every {POLL})"
    )
    return within >= 0.9 and pairs["episode_id"].null_count() == 0


def check(fleet: Fleet, lake_path: Path) -> bool:
    """Compare every mart that has a truth; print as it goes."""
    now = fleet.now()
    until = now - timedelta(minutes=2)  # younger records may not be visible yet
    with open_lake(lake_path, read_only=True) as lake:
        errors = ("start_error_s", "end_error_s")
        pairs = compare(lake, fleet.truth("failover_episodes"), FAILOVERS, until)
        good = list(matches("failover_episodes", pairs, *errors, "bytes_error"))
        offline = fleet.truth("outages").filter(pl.col("kind") == "offline")
        pairs = compare(lake, fleet.truth("trips"), TRIPS, until, offline)
        seen = pairs.filter(pl.col("is_seen"))
        good += matches("trips of routers online throughout", seen, *errors, "distance_error")
        unseen = pairs.filter(~pl.col("is_seen"))
        list(matches("trips next to a spell offline", unseen, *errors))
        lives = fleet.truth("battery_life").with_columns(pl.lit(now).alias("told_at"))
        good.append(check_batteries(compare(lake, lives, BATTERIES, until)))
        real = compare(lake, fleet.truth("outages"), OFFLINE, until).row(0)
        seen = lake.rows("select sum(offline_s) from marts.device_availability_daily")[0][0]
        print(
            f"device_availability_daily: {seen:,.0f} s offline,"
            f" in truth {real[1]:,.0f} s in {real[0]} spells of a minute or more"
        )
    return all(good)


def check_without_records(fleet: Fleet, lake_path: Path) -> bool:
    """Lose a third of the failover records, and find the episodes by their alerts."""
    with open_lake(lake_path) as lake:
        lake.execute("delete from raw.failovers where hash(uuid) % 3 = 0 and ended_at is not null")
    build_marts(lake_path)
    until = fleet.now() - timedelta(minutes=2)
    with open_lake(lake_path, read_only=True) as lake:
        pairs = compare(lake, fleet.truth("failover_episodes"), FAILOVERS, until)
    pieced = pairs.filter(pl.col("source") == "alerts").height
    name = f"failover_episodes, {pieced} of them without a record"
    return all(matches(name, pairs, "start_error_s", "end_error_s"))


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
