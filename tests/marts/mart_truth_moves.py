"""Compare marts with the truth for moved, renamed, swapped and re-registered devices."""

# ruff: noqa: T201 - it is run for what it prints

from collections.abc import Iterator
from datetime import datetime, timedelta

import polars as pl

from fleetlake.lake import Lake
from tests.support.mart_truth_fleet import BORN, FIX_INTERVAL_S, POLL, Fleet, compare, is_matched

UNREAD = timedelta(minutes=2)
"""The samples of the last minutes before a router was unregistered were not visible yet."""
BYTES_SHARE = 0.01
"""The newest samples of a month may not be visible yet."""

# What marts say about the interface that took over, and about those with a month's traffic.
# A change is unseen until the first poll after it.
BACKUPS = """
select t.*, t.to_net_device_id as device, e.episode_id,
       e.to_interface = t.to_uid and e.backup_net_device_id = t.to_net_device_id
           and e.to_carrier = t.to_carrier as is_right
from truth as t inner join marts.failover_episodes as e
on e.router_id = t.router_id and e.source = 'record'
and abs(epoch(e.started_at) - epoch(t.started_at)) <= 1
where t.started_at < ?
"""

# From the failover records or, where those are lost, from the polls.
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

RESET, REPLACED = "is reset to factory settings", "is replaced by another"
INTERFACE_KINDS = {
    "that move with their name": pl.col("kind") == "moves with its name",
    "that take over a name": pl.col("kind") == "takes over the name of another",
    "that change ports": pl.col("kind") == "changes ports within its router",
    "that were or come to be in a drawer": pl.col("kind") == "changes places with one in a drawer",
    "that get other SIM cards": pl.col("swaps_sim"),
    "of routers reset to factory settings": pl.col("kind") == RESET,
    "of routers replaced": pl.col("kind") == REPLACED,
}
"""How some modems change, in terms of the simulator's `interface_spans`."""

OWNER_KINDS = ("stays", "changes account", "changes group", "is renamed", RESET, REPLACED)
"""How routers change, in terms of the simulator's `router_spans`."""

# A row per mart and router of each registration, as `device`: whether it is correct there.
# The old router is in no mart of current state, and its days end at the poll that missed it.
REGISTERED = """
with devices as (
    select replaces_router_id as device, kind, registered_at, false as is_there from truth
    union all
    select router_id, kind, registered_at, true from truth
),
found as (
    select 'location_latest' as mart, router_id, true as is_right from marts.location_latest
    union all
    select 'device_inventory', router_id, true from marts.device_inventory
    union all
    select 'failover_now', router_id, true from marts.failover_now
    union all
    select 'location_gaps, open', router_id, true from marts.location_gaps where is_open
    union all
    select 'battery_risk', router_id, true from marts.battery_risk
)
select m.mart, d.device, d.kind, d.is_there, f.router_id is not null as is_found
from devices as d
cross join (select distinct mart from found) as m
left join found as f on f.router_id = d.device and f.mart = m.mart
"""

DAYS = """
select t.kind, d.router_id as device,
       bool_and(d.day_date between t.first_date and t.last_date) as is_right
from (
    select kind, replaces_router_id as router_id, date '2000-01-01' as first_date,
           (registered_at + interval {hours} hour)::date as last_date
    from truth
    union all
    select kind, router_id, registered_at::date, date '9999-01-01' from truth
) as t
left join (
    select router_id, available_date as day_date from marts.device_availability_daily
    union all
    select router_id, wan_date from marts.wan_availability_daily
) as d on d.router_id = t.router_id
group by all
"""


def polls_unseen(spans: pl.DataFrame, key: str, now: datetime) -> pl.DataFrame:
    """Return the span in which each change of a modem or router was not yet seen by a poll.

    The initial state is never seen if it changes before the first poll.
    """
    since = (pl.col("started_at") - BORN).dt.total_microseconds()
    poll = POLL // timedelta(microseconds=1)
    next_poll = pl.lit(BORN) + pl.duration(microseconds=(since // poll + 1) * poll)
    seen = pl.max_horizontal(next_poll, pl.lit(BORN + POLL))
    is_change = pl.col("started_at") > spans["started_at"].min()
    changes = spans.filter(is_change | (pl.col("ended_at") < seen))
    return changes.select(
        pl.col(key).alias("device"),
        pl.col("started_at").alias("changed_at"),
        pl.min_horizontal(seen, pl.lit(now)).alias("seen_at"),
    )


def is_right_as_of(name: str, pairs: pl.DataFrame, unseen: pl.DataFrame) -> bool:
    """Print how often a mart has the values as of an event; return whether it always does.

    Events between a change and the poll that saw it are counted separately.
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
    """Print the backups and months of each kind of modem; return whether all are correct."""
    spans = fleet.truth("interface_spans")
    unseen = polls_unseen(spans, "net_device_id", fleet.now())
    backups = compare(lake, fleet.truth("failover_episodes"), BACKUPS, until)
    good = is_right_as_of("failover_episodes by backup", backups, unseen)
    changing = spans.filter(pl.any_horizontal(*INTERFACE_KINDS.values()))
    last = changing.filter(pl.col("kind").is_in([RESET, REPLACED])).drop_nulls("ended_at")
    ends = dict(last.select("net_device_id", pl.col("ended_at") - UNREAD).rows())
    moved = changing["net_device_id"].unique().sort().to_list()
    # Bytes in the two minutes left out above would differ, and every sample is visible by then.
    samples = pl.concat(
        usage
        for device in moved
        for usage in usage_of(fleet, device, ends.get(device, fleet.now()))
    )
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
    """Print how often episodes have the account and group of their start; return whether all do."""
    spans = fleet.truth("router_spans")
    unseen = polls_unseen(spans, "router_id", fleet.now())
    pairs = compare(lake, spans, OWNERS, until)
    good = True
    for kind in OWNER_KINDS:
        routers = spans.filter(pl.col("kind") == kind)["router_id"].unique().implode()
        those = pairs.filter(pl.col("device").is_in(routers))
        good &= is_right_as_of(f"  owners of {source} of a router that {kind}", those, unseen)
    return good


def is_right_of_registrations(fleet: Fleet, lake: Lake, episodes: dict[str, pl.DataFrame]) -> bool:
    """Print the marts' rows of re-registered routers, old and new; return whether all are correct.

    `episodes` has the pairs of truth and mart, by the mart's name.
    """
    truth, until = fleet.truth("registrations"), fleet.now()
    presence = compare(lake, truth, REGISTERED, until)
    days = compare(lake, truth, DAYS.format(hours=int(POLL.total_seconds() // 3600)), until)
    good = truth.height > 0
    for kind in (RESET, REPLACED):
        pairs = truth.filter(pl.col("kind") == kind)
        routers = pl.concat([pairs["router_id"], pairs["replaces_router_id"]]).implode()
        for name, found in episodes.items():
            those = found.filter(pl.col("of_router_id").is_in(routers)).drop("of_router_id")
            good &= is_matched(f"{name} of a router that {kind}", those, FIX_INTERVAL_S)
        those = presence.filter(pl.col("kind") == kind)
        ghosts = those.filter("is_found", ~pl.col("is_there"))["mart"].unique().sort().to_list()
        absent = those.filter(
            ~pl.col("is_found"),
            "is_there",
            pl.col("mart").is_in(["location_latest", "device_inventory"]),
        )
        wrong = days.filter(pl.col("kind") == kind, ~pl.col("is_right").fill_null(value=False))
        print(
            f"  a router that {kind}: {pairs.height} registrations, {absent.height} missed, "
            f"{len(ghosts)} marts of now with the old one {ghosts}, {wrong.height} with wrong days"
        )
        good &= not ghosts and absent.is_empty() and wrong.is_empty()
    return good


def usage_of(fleet: Fleet, device: int, until: datetime) -> Iterator[pl.DataFrame]:
    """Yield the time and bytes of each usage sample of an interface."""
    samples = fleet.truth("net_device_usage_samples", device=str(device))
    if samples.is_empty():
        return
    yield samples.filter(pl.col("created_at") < until).select(
        pl.lit(device).alias("net_device_id"),
        "created_at",
        (pl.col("bytes_in") + pl.col("bytes_out")).alias("bytes"),
    )
