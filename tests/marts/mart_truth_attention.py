"""Compare the mart `attention` with what the simulated world says is the matter right now."""

# ruff: noqa: T201 - it is run for what it prints

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

import polars as pl

from fleetlake.lake import Lake
from tests.marts.mart_truth_moves import usage_of
from tests.support.mart_truth_fleet import POLL, Fleet

CAP_BYTES = 5_000_000_000
"""The monthly data cap of every line that is not wired: `sql/seeds/carrier_plans.csv`."""
FLAP_GAP, FLAP_EPISODES, FLAP_RECENT = timedelta(seconds=900), 3, timedelta(days=1)
EDGE = timedelta(minutes=5)
"""What changed this recently may be reported later, or not yet."""
STAMP = timedelta(seconds=2)
REPORT = timedelta(minutes=15)
"""A poll shows the last report of a battery, which may be that old."""
SAMPLE = 40
"""Lines whose traffic is added up besides those that the mart names: the truth of all is long."""

Since = dict[int | str, datetime]


@dataclass(frozen=True, kw_only=True)
class Truth:
    """What is the matter, since when, and what may be either way because it has just changed."""

    since: Since
    unsure: frozenset[int | str] = frozenset()
    known_to: timedelta = STAMP
    """How far the mart's `since_at` may be from the truth."""


def is_right_of_attention(fleet: Fleet, lake: Lake, poll: timedelta = POLL) -> bool:
    """Print matched, missed and invented rows of each reason; return whether all are correct.

    `poll` is the time between two readings of the batteries.
    """
    rows = lake.execute("select * from marts.attention").pl()
    now = fleet.now()
    as_of = rows["as_of_at"].max() or now
    assert isinstance(as_of, datetime)
    present = frozenset(fleet.truth("routers")["id"].cast(pl.Int64))
    episodes = fleet.truth("failover_episodes")
    lines = rows.filter(pl.col("reason") == "data_cap")["net_device_id"].to_list()
    truths = {
        "on_backup": ("router_id", _on_backup(episodes, now)),
        "offline": ("router_id", _offline(fleet.truth("outages"), now)),
        "flapping": ("router_id", _flapping(episodes, as_of)),
        "battery_to_change": ("battery_id", _worn(fleet.truth("battery_life"), now, poll)),
        "data_cap": ("net_device_id", _over_cap(fleet, lines, as_of)),
    }
    good = True
    for reason, (thing, truth) in truths.items():
        said = rows.filter(pl.col("reason") == reason)
        if reason in ("battery_to_change", "data_cap"):  # the others are forecasts
            said = said.filter(pl.col("severity") == "urgent")
        good &= _is_matched(reason, said.select(thing, "since_at"), truth, _gone(fleet, present))
    return good


def _gone(fleet: Fleet, present: frozenset[int]) -> frozenset[int | str]:
    """Return the routers, batteries and interfaces that are not in the service any more."""
    batteries = fleet.truth("battery_life").filter(~pl.col("router_id").is_in(present))
    gone = {*batteries["battery_id"].cast(pl.String)}
    spans = fleet.truth("router_spans")
    return frozenset({*spans["router_id"]} - present | gone)


def _is_matched(reason: str, said: pl.DataFrame, truth: Truth, gone: frozenset[int | str]) -> bool:
    told: Since = dict(said.iter_rows())
    real = {thing: since for thing, since in truth.since.items() if thing not in gone}
    missed = real.keys() - told.keys() - truth.unsure
    invented = told.keys() - real.keys() - truth.unsure
    both = told.keys() & real.keys()
    off = max((abs(told[thing] - real[thing]) for thing in both), default=timedelta(0))
    print(
        f"attention, {reason}: {len(both)} matched, {len(missed)} missed, "
        f"{len(invented)} invented, since off by at most {off.total_seconds():.3f} s"
    )
    return not missed and not invented and off <= truth.known_to


def _on_backup(episodes: pl.DataFrame, now: datetime) -> Truth:
    """A router is on a backup since the newest of its episodes that are not over."""
    open_ones = episodes.filter(pl.col("ended_at").is_null()).sort("started_at")
    return Truth(
        since=dict(open_ones.select("router_id", "started_at").iter_rows()),
        unsure=_just_changed(episodes, now),
    )


def _offline(outages: pl.DataFrame, now: datetime) -> Truth:
    spells = outages.filter(pl.col("kind") == "offline")
    open_ones = spells.filter(pl.col("ended_at").is_null())
    return Truth(
        since=dict(open_ones.select("router_id", "started_at").iter_rows()),
        unsure=_just_changed(spells, now),
    )


def _just_changed(spans: pl.DataFrame, now: datetime) -> frozenset[int | str]:
    fresh = (pl.col("started_at") > now - EDGE) | (pl.col("ended_at") > now - EDGE)
    return frozenset(spans.filter(fresh)["router_id"])


def _flapping(episodes: pl.DataFrame, as_of: datetime) -> Truth:
    """A link flaps while each episode begins shortly after those before it have ended."""
    since: Since = {}
    unsure: set[int | str] = set()
    for (router,), own in episodes.sort("started_at").group_by("router_id"):
        router_id = int(str(router))
        groups: list[list[tuple[datetime, datetime]]] = []
        reached = None
        for started_at, ended_at in own.select("started_at", "ended_at").iter_rows():
            until = ended_at or as_of
            pause = None if reached is None else started_at - reached
            if pause is not None and abs(pause - FLAP_GAP) < STAMP:
                unsure.add(router_id)
            if pause is None or pause >= FLAP_GAP:
                groups.append([])
            groups[-1].append((started_at, until))
            reached = until if reached is None else max(reached, until)
        for group in groups:
            ended_at = max(until for _, until in group)
            if len(group) >= FLAP_EPISODES and ended_at >= as_of - FLAP_RECENT:
                since[router_id] = group[0][0]
                if as_of - FLAP_RECENT + EDGE > ended_at or group[-1][0] > as_of - EDGE:
                    unsure.add(router_id)
    return Truth(since=since, unsure=frozenset(unsure))


def _worn(lives: pl.DataFrame, now: datetime, poll: timedelta) -> Truth:
    worn = lives.drop_nulls("reached_62_at").with_columns(pl.col("battery_id").cast(pl.String))
    fresh = worn.filter(pl.col("reached_62_at") > now - EDGE)
    return Truth(
        since=dict(worn.select("battery_id", "reached_62_at").iter_rows()),
        unsure=frozenset(fresh["battery_id"]),
        known_to=poll + REPORT,
    )


def _over_cap(fleet: Fleet, told: Iterable[int], as_of: datetime) -> Truth:
    """Add up this month's traffic of the lines that the mart names, and of some others."""
    devices = fleet.truth("net_devices").filter(pl.col("type") != "ethernet")
    others = devices["id"].cast(pl.Int64).sort().head(SAMPLE)
    since: Since = {}
    unsure: set[int | str] = set()
    for device in {*told, *others}:
        for samples in usage_of(fleet, device, as_of + STAMP):
            month = samples.filter(pl.col("created_at") >= as_of.replace(day=1, hour=0, minute=0))
            day = pl.col("created_at").dt.date()
            running = month.sort("created_at").with_columns(pl.col("bytes").cum_sum().alias("sum"))
            total = running["sum"].max() or 0
            assert isinstance(total, int | float)
            if abs(total / CAP_BYTES - 1) < 0.02:  # the newest samples may not be visible yet
                unsure.add(device)
            passed = running.filter(pl.col("sum") > CAP_BYTES).select(day).head(1)
            if passed.height:
                first = running.filter(day == passed.item())["created_at"].min()
                assert isinstance(first, datetime)
                since[device] = first
    return Truth(since=since, unsure=frozenset(unsure), known_to=timedelta(days=1))
