"""What the questions' answers must be, from the simulated world: WAN links, data and signal."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from datetime import datetime
from statistics import mean
from zoneinfo import ZoneInfo

import polars as pl

from tests.marts.question_answers import DAY, Rows, named, router_names
from tests.marts.question_world import Record, World, about, id_of, instant, midnight

CAP_BYTES, PRICE_PER_GB = 5e9, 10.0
"""The cap and price of every line in `carrier_plans.csv`."""
HOUR_S = 3600
MEAN = 0.101
"""The mean of a day is rounded to a tenth, and so is the mean of the days."""
ROUND_H = 0.1
"""Hours are rounded to a tenth, and the last minutes may be unknown."""
Span = tuple[datetime, datetime]


def is_at_work(at: pl.Expr) -> pl.Expr:
    """Say whether local times are working hours."""
    return (at.dt.weekday() <= 5) & at.dt.hour().is_between(8, 17)


def local(frame: pl.DataFrame, member: str) -> pl.Series:
    """Return the local times of instants, each by its row's `zone`, without the zone."""
    return pl.Series(
        [
            None if at is None else at.astimezone(ZoneInfo(zone)).replace(tzinfo=None)
            for at, zone in frame.select(member, "zone").rows()
        ],
        dtype=pl.Datetime("us"),
    )


def episodes(world: World) -> pl.DataFrame:
    """Return each failover with its router's name, its end so far and its duration in seconds."""
    found = world.frame("failover_episodes").join(router_names(world), on="router_id")
    until = pl.col("ended_at").fill_null(world.now)
    found = found.with_columns(until.alias("until"), local(found, "started_at").alias("local"))
    return found.with_columns(
        (pl.col("until") - pl.col("started_at")).dt.total_milliseconds().truediv(1000).alias("s"),
        pl.col("started_at").dt.truncate("1mo").dt.date().alias("month_date"),
    )


def hours(frame: pl.DataFrame, *names: str) -> Rows:
    """Return the number of episodes and their hours, summed by columns."""
    found = frame.group_by(names).agg(pl.len().alias("episodes"), pl.col("s").sum()).to_dicts()
    return [row | {"hours_on_backup": about(row.pop("s") / HOUR_S, ROUND_H)} for row in found]


def on_backup(world: World) -> Rows:
    """Return the routers that are on a backup now, with its name and strength."""
    strengths = {
        r["net_device"]: r["signal_strength"] for r in world.frame("net_device_metrics").to_dicts()
    }
    open_ones = {r["router_id"]: r for r in world.records("failovers") if r["ended_at"] is None}
    return [
        {
            "router_name": one["router_name"],
            "from_interface": open_ones[one["router_id"]]["previous_wan_interface"],
            "to_carrier": one["to_carrier"],
            "minutes": about(one["s"] / 60, 2),
            "signal_pct": strengths[one["to_net_device_id"]],
            "unknown_since_at": None,
        }
        for one in episodes(world).filter(pl.col("ended_at").is_null()).to_dicts()
    ]


def at_work(world: World) -> Rows:
    """Return the failovers that began in working hours, by router."""
    return hours(episodes(world).filter(is_at_work(pl.col("local"))), "router_name")


def failing_over(world: World) -> Rows:
    """Return the number and hours of the failovers of each router."""
    return hours(episodes(world), "router_name")


def causes(world: World) -> Rows:
    """Return the number and median duration of the failovers of each alert and reason."""
    is_unplugged = pl.col("reason") == "cable unplugged"
    kind = (
        pl.when(is_unplugged)
        .then(pl.lit("ethernet_wan_unplugged"))
        .when(pl.col("from_interface") == "ethernet")
        .then(pl.lit("ethernet_wan_disconnected"))
        .otherwise(pl.lit("modem_wan_disconnected"))
    )
    found = (
        episodes(world)
        .group_by(kind.alias("cause_type"), pl.col("reason").alias("cause_reason"))
        .agg(pl.len().alias("episodes"), pl.col("s").median())
        .to_dicts()
    )
    return [row | {"median_s": about(row.pop("s"), 1.5)} for row in found]


def failovers_by(*names: str) -> Callable[[World], Rows]:
    """Count the failovers by some columns."""
    return lambda world: episodes(world).group_by(names).agg(pl.len().alias("failovers")).to_dicts()


def backup_bytes(world: World) -> Rows:
    """Return the bytes that all backups carried."""
    return [{"bytes": sum(one["data_usage"] for one in world.records("failovers"))}]


def union(spans: Iterable[Span]) -> list[Span]:
    """Return the spans that overlap or touch as one each."""
    found: list[Span] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return found


def seconds(spans: Iterable[Span], *, since: datetime | None = None) -> float:
    """Return how long the spans last together, from an instant on."""
    return sum(
        max((end - max(start, since or start)).total_seconds(), 0) for start, end in union(spans)
    )


def spans_of(frame: pl.DataFrame, world: World) -> dict[int, list[Span]]:
    """Return the spans of each router, up to now."""
    found: dict[int, list[Span]] = {}
    for router, start, end in frame.select("router_id", "started_at", "ended_at").rows():
        found.setdefault(router, []).append((start, end or world.now))
    return found


def backup_costs(world: World) -> Rows:
    """Return the failovers, time, bytes and cost of each carrier and month."""
    found, records = [], world.frame("failovers")
    # A record counts the bytes up to its last report: fewer than those of an open failover.
    counted = records.select("router_id", "started_at", "data_usage")
    all_ = episodes(world).join(counted, on=["router_id", "started_at"])
    for (month, carrier), own in all_.group_by("month_date", "to_carrier"):
        spent = sum(seconds(spans) for spans in spans_of(own, world).values())
        used = own["data_usage"].sum()
        found.append(
            {
                "month_date": month,
                "carrier": carrier,
                "episodes": own.height,
                "hours": about(spent / HOUR_S, ROUND_H),
                "gigabytes": about(used / 1e9, 0.00051),
                "cost": about(used / 1e9 * PRICE_PER_GB, 0.00005 * own.height),
            }
        )
    return found


def offline(world: World) -> pl.DataFrame:
    """Return the spells in which routers were offline."""
    return world.frame("outages").filter(pl.col("kind") == "offline")


def _uptime(world: World, since: datetime) -> Rows:
    """Return, by router, its shares of time on the primary WAN and up, and hours otherwise.

    The lake's last minutes may be missing; tenths of a percent and of an hour cover them.
    """
    backups, outages = spans_of(episodes(world), world), spans_of(offline(world), world)
    found = []
    for router, name, _ in router_names(world).rows():
        first = max(since, world.known_from(router))
        known = (world.now - first).total_seconds()
        out = seconds(outages.get(router, []), since=first)
        either = seconds([*outages.get(router, []), *backups.get(router, [])], since=first)
        found.append(
            {
                "router_name": name,
                "available_pct": about(100 * (known - either) / known, 0.1),
                "up_pct": about(100 * (known - out) / known, 0.1),
                "hours_on_backup": about((either - out) / HOUR_S, ROUND_H),
                "hours_offline": about(out / HOUR_S, ROUND_H),
                "hours_unknown": about(0, ROUND_H),
            }
        )
    return found


def uptime(world: World) -> Rows:
    """Return the share of time up of each router, and its hours on a backup and offline."""
    rows = _uptime(world, world.began)
    return [{n: v for n, v in row.items() if n != "available_pct"} for row in rows]


def this_month(world: World) -> Rows:
    """Return the share of time on the primary WAN of each router since the month began."""
    rows = _uptime(world, world.midnight.replace(day=1))
    return [{name: row[name] for name in ("router_name", "available_pct")} for row in rows]


def usage(world: World) -> pl.DataFrame:
    """Return each usage sample with its day, month and bytes."""
    return world.frame("net_device_usage_samples").select(
        pl.col("net_device").alias("net_device_id"),
        (pl.col("bytes_in") + pl.col("bytes_out")).alias("bytes"),
        pl.col("created_at").alias("at"),
        pl.col("created_at").dt.date().alias("usage_date"),
        pl.col("created_at").dt.truncate("1mo").dt.date().alias("month_date"),
        "period",
        "uptime",
    )


def usage_by(*names: str) -> Callable[[World], Rows]:
    """Return the bytes moved, summed by columns of the samples."""
    return lambda world: usage(world).group_by(names).agg(pl.col("bytes").sum()).to_dicts()


def lines(world: World) -> pl.DataFrame:
    """Return the traffic of each interface and month, with what the interface was at its end."""
    months = (
        usage(world)
        .group_by("net_device_id", "month_date")
        .agg(
            pl.col("bytes").sum(),
            pl.col("at").max().alias("last"),
            (pl.col("at") - pl.duration(milliseconds=1000 * pl.col("period"))).min().alias("first"),
            pl.col("period").sum().alias("sampled_s"),
            pl.min_horizontal(pl.col("uptime").fill_null(0), "period").sum().alias("connected_s"),
        )
    )
    found = []
    for one in months.to_dicts():
        place = interface_at(world, one["net_device_id"], one["last"])
        found.append(one | place)
    return pl.DataFrame(found, infer_schema_length=None)


def interface_at(world: World, device: int, at: datetime) -> Record:
    """Return a modem's or port's router, name and carrier at an instant."""
    ports = [one for one in world.records("net_devices") if int(one["id"]) == device]
    found = {"router_id": id_of(ports[0]["router"]), "uid": ports[0]["uid"], "carrier": None}
    for span in world.records("interface_spans"):
        ended_at = instant(span["ended_at"] or "9999-01-01T00:00:00+00:00")
        if span["net_device_id"] == device and instant(span["started_at"]) <= at < ended_at:
            found = span
    return {
        "router_id": found["router_id"],
        "router_name": named(world, "routers").get(found["router_id"]),
        "interface": found["uid"],
        "carrier": found["carrier"],
    }


def largest_lines(world: World) -> Rows:
    """Return the bytes of each modem and port, with what it was at the end of each month."""
    keys = ("router_id", "interface", "carrier")
    return lines(world).group_by(keys).agg(pl.col("bytes").sum()).to_dicts()


def connected(world: World) -> Rows:
    """Return the share of the sampled time in which the lines of a carrier were connected."""
    found = lines(world).group_by("carrier").agg(pl.col("connected_s", "sampled_s").sum())
    return [
        {"carrier": carrier, "connected_pct": about(100 * on / of, 0.06)}
        for carrier, on, of in found.rows()
    ]


def usage_by_carrier(world: World) -> Rows:
    """Return the bytes of each day and carrier, by the carrier at the end of the month."""
    carriers = lines(world).select("net_device_id", "month_date", "carrier")
    days = usage(world).join(carriers, on=["net_device_id", "month_date"])
    found = days.drop_nulls("carrier").group_by("usage_date", "carrier").agg(pl.col("bytes").sum())
    return [
        {"usage_date": day, "carrier": carrier, "gigabytes": about(used / 1e9, 0.0051)}
        for day, carrier, used in found.rows()
    ]


def months(world: World) -> Rows:
    """Return the bytes of each month; the first begins, and the last ends, within its month."""
    return [row | {"is_complete": False} for row in usage_by("month_date")(world)]


def signal(world: World) -> pl.DataFrame:
    """Return the signal samples."""
    return world.frame("net_device_signal_samples").with_columns(
        pl.col("net_device").alias("net_device_id"), pl.col("created_at").alias("at")
    )


def signal_by_modem(*names: str) -> Callable[[World], Rows]:
    """Return the number, mean and least strength of each modem's samples, 4G and 5G."""

    def truth(world: World) -> Rows:
        found = (
            signal(world)
            .group_by("net_device_id")
            .agg(
                pl.len().alias("samples"),
                pl.col("rsrp5g").count().alias("samples_5g"),
                pl.col("rsrp").mean().alias("rsrp_dbm"),
                pl.col("rsrp5g").mean().alias("rsrp_5g_dbm"),
                (100 * (pl.col("rsrp") < -110).sum() / pl.col("rsrp").count()).alias("weak_pct"),
            )
        )
        means = ("rsrp_dbm", "rsrp_5g_dbm", "weak_pct")
        return [
            {
                name: about(row[name], MEAN)
                if name in means and row[name] is not None
                else row[name]
                for name in ("net_device_id", *names)
            }
            for row in found.to_dicts()
        ]

    return truth


def service_scores(world: World) -> Rows:
    """Return the service's newest score of each modem's link, and the lowest that a poll saw."""
    found: dict[int, Rows] = defaultdict(list)
    for at in sorted(world.polls):
        for one in world.polls[at].get("net_device_health", []):
            found[id_of(one["net_device"])].append(one)
    return [
        {
            "net_device_id": modem,
            "category": own[-1]["cellular_health_category"],
            "score": own[-1]["cellular_health_score"],
            "lowest_score": min(one["cellular_health_score"] for one in own),
        }
        for modem, own in found.items()
    ]


def weakest_5g(world: World) -> Rows:
    """Return the least strength of each modem that reported 5G."""
    least = signal(world).group_by("net_device_id").agg(pl.col("rsrp5g").min().alias("rsrp_5g_dbm"))
    return least.drop_nulls().to_dicts()


def backup_signal(world: World) -> Rows:
    """Return the mean strength of the modems that took over, by carrier, while they were in use."""
    samples = signal(world)
    means: dict[str, Rows] = defaultdict(list)
    for one in episodes(world).to_dicts():
        own = samples.filter(
            pl.col("net_device_id") == one["to_net_device_id"],
            pl.col("at") >= one["started_at"],
            pl.col("at") <= one["until"],
        )
        if own.height:
            means[one["to_carrier"]].append({n: own[n].mean() for n in ("rsrp", "sinr")})
    return [
        {
            "to_carrier": carrier,
            "episodes": len(own),
            "rsrp_dbm": about(mean(one["rsrp"] for one in own if one["rsrp"] is not None), 0.11),
            "sinr_db": about(mean(one["sinr"] for one in own if one["sinr"] is not None), 0.11),
        }
        for carrier, own in means.items()
    ]


def offline_yesterday(world: World) -> Rows:
    """Return how long each device was offline on the day before the last."""
    day = world.midnight - DAY
    spells, found = spans_of(offline(world), world), []
    for router, name, _ in router_names(world).rows():
        own = [(max(a, day), min(b, day + DAY)) for a, b in spells.get(router, [])]
        own = [(a, b) for a, b in own if a < b]
        off = seconds(own)
        found.append(
            {
                "router_name": name,
                "offline_spells": len(own),
                "minutes_offline": about(off / 60, 1.5),
                "available_pct": about(100 * (1 - off / 86400), 0.1),
            }
        )
    return found


def device_availability(world: World) -> Rows:
    """Return the mean share of time online of each device on the days that are known whole."""
    spells, found = spans_of(offline(world), world), []
    for router, name, _ in router_names(world).rows():
        first = midnight(world.known_from(router)) + DAY
        last = world.midnight
        off = seconds(
            [(max(a, first), min(b, last)) for a, b in spells.get(router, []) if b > first]
        )
        found.append(
            {
                "router_name": name,
                "available_pct": about(100 * (1 - off / (last - first).total_seconds()), 0.05),
                "days": (last - first).days,
            }
        )
    return found
