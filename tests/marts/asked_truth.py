"""What metrics must be in a simulated world in which devices move and get other names.

The truth about a metric is a table of what happened, from the simulator, and what to compute of it;
the dimensions, the range and the grain of a question are applied to that table, whatever it is.
A fifth of the events arrives late, and the world is loaded twice, four days apart.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import polars as pl

from fleetlake.lake import open_lake
from fleetlake.lake.ducklake import newest_snapshot
from fleetlake.marts import build_marts
from tests.marts import question_answers as lists
from tests.marts import question_links as links
from tests.marts import question_places as places
from tests.marts.question_world import World, as_frame, id_of, instant, leave_out_lte, midnight
from tests.support.sim import delete_last_minute, new_sim

FIRST = datetime(2026, 6, 27, 12, tzinfo=UTC)
DAY, LATE = timedelta(days=1), timedelta(minutes=16)
START, END = FIRST - 6.25 * DAY, FIRST + 4 * DAY
"""No router is reset after the first load: each is renamed every four days, or never."""
ROUTERS = 33
LISTS = ("accounts", "groups", "net_devices", "routers")
NEVER = datetime(2100, 1, 1, tzinfo=UTC)
TOLD = timedelta(minutes=1)
"""The service tells of no spell offline that is shorter."""
FEW_S, SHARE = 120.0, 0.15
DIMENSIONS = ("account", "group", "product")
TRUNCATED = {"day": "1d", "week": "1w", "month": "1mo", "quarter": "1q", "year": "1y"}


class AskedWorld(World):
    """A fleet that was loaded and built twice, and its lake at both times."""

    broken = -1
    unsettled = LATE

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.now, self.polls = folder, START, {}
        options = {"days": 0.25, "scenario": "late-data", "flapping": True}
        self.sim = new_sim(folder, routers=ROUTERS, seed=seed, now=START, **options)
        self.pass_until(FIRST)
        self.records, self.frame = cache(self._records), cache(self._frame)

    def pass_until(self, moment: datetime) -> None:
        """Let time pass."""
        self.sim.advance((moment - self.now).total_seconds())
        self.now = moment

    def live(self, *, loads: bool = True) -> None:
        """Load and build, poll the lists for days, and load and build without the last minutes."""
        lake = self.sim.settings().lake
        for day in range(5):
            self.pass_until(FIRST + day * DAY)
            if loads:
                names = () if self.now in {FIRST, END} else LISTS
                assert [one.error for one in self.sim.ingest(*names) if one.error] == []
            told = (*LISTS, "batteries") if self.now in {FIRST, END} else LISTS
            self.polls[self.now] = {name: self.sim.truth(name) for name in told}
            if loads and day == 0:
                build_marts(lake, select="+failover_episodes +device_inventory +data_usage_month")
                with open_lake(lake) as opened:
                    self.snapshot = newest_snapshot(opened)
        _ = self.old_name, self.moved  # the simulator cannot be asked while a client runs
        if loads:
            with open_lake(lake) as opened:
                delete_last_minute(opened, END - LATE + timedelta(minutes=1))
                leave_out_lte(opened)
            build_marts(lake)

    @cached_property
    def old_name(self) -> str:
        """Return the name that a renamed router had at the first load."""
        before, now = (
            {r["id"]: r["name"] for r in self.polls[at]["routers"] if r["device_type"] == "router"}
            for at in (FIRST, END)
        )
        return next(name for router, name in before.items() if now.get(router, name) != name)

    @cached_property
    def moved(self) -> int:
        """Return a modem that another router had at the first load."""
        spans = self.frame("interface_spans").sort("started_at")
        of = spans.group_by("net_device_id", maintain_order=True).agg(pl.col("router_id").unique())
        return int(of.filter(pl.col("router_id").list.len() > 1)["net_device_id"][0])


def devices(world: World) -> pl.DataFrame:
    """Return the routers with what they are now."""
    ids = [
        {
            "router_id": int(one["id"]),
            "account_id": id_of(one["account"]),
            "group_id": id_of(one["group"]),
            "device_type": one["device_type"],
        }
        for one in world.records("routers")
    ]
    rows = [one | row for one, row in zip(ids, lists.devices(world), strict=True)]
    return pl.DataFrame(rows, infer_schema_length=None)


def failovers(world: World) -> pl.DataFrame:
    """Return the failovers with the bytes that their records count."""
    used = world.frame("failovers").select("router_id", "started_at", "data_usage")
    wired = pl.col("from_interface") == "ethernet"
    unplugged = pl.col("reason") == "cable unplugged"
    cause = (
        pl.when(unplugged)
        .then(pl.lit("ethernet_wan_unplugged"))
        .when(wired)
        .then(pl.lit("ethernet_wan_disconnected"))
        .otherwise(pl.lit("modem_wan_disconnected"))
    )
    return (
        links.episodes(world)
        .join(used, on=["router_id", "started_at"], how="left")
        .select(
            "router_id",
            "s",
            pl.col("started_at").alias("at"),
            pl.col("to_carrier").alias("carrier"),
            pl.col("reason").alias("cause_reason"),
            cause.alias("cause_type"),
            pl.col("local").dt.hour().alias("local_hour"),
            links.is_at_work(pl.col("local")).alias("is_working_hours"),
            pl.col("data_usage").fill_null(0).alias("bytes"),
        )
    )


def _line_months(world: World) -> pl.DataFrame:
    """Return where each line was, as the last poll before the end of a month saw it."""
    found = []
    for month in (date(2026, 6, 1), date(2026, 7, 1)):
        polls = [at for at in world.polls if at.date().replace(day=1) <= month and at < END]
        found += [
            {
                "net_device_id": int(one["id"]),
                "month_date": month,
                "router_id": id_of(one["router"]),
                "carrier": one["carrier"],
                "interface": one["uid"],
            }
            for one in world.polls[max(polls)]["net_devices"]
        ]
    return pl.DataFrame(found, infer_schema_length=None)


def usage(world: World) -> pl.DataFrame:
    """Return the usage samples with the router and carrier of the line at the end of the month."""
    samples = world.frame("net_device_usage_samples").select(
        pl.col("net_device").alias("net_device_id"),
        pl.col("created_at").alias("at"),
        pl.col("created_at").dt.truncate("1mo").dt.date().alias("month_date"),
        "bytes_in",
        "bytes_out",
    )
    return samples.join(_line_months(world), on=["net_device_id", "month_date"])


def signal(world: World) -> pl.DataFrame:
    """Return the signal samples in the same way."""
    samples = links.signal(world).with_columns(
        pl.col("at").dt.truncate("1mo").dt.date().alias("month_date")
    )
    return samples.join(_line_months(world), on=["net_device_id", "month_date"])


def alerts(world: World) -> pl.DataFrame:
    """Return the alerts, and whether each follows another one soon."""
    found = world.frame("alerts").sort("detected_at")
    of_thing = ["type", "router", pl.when(pl.col("router").is_null()).then(pl.col("account"))]
    since_last = (pl.col("detected_at") - pl.col("detected_at").shift()).over(of_thing)
    return found.select(
        pl.col("type").alias("alert_type"),
        pl.col("router").alias("router_id"),
        pl.col("detected_at").alias("at"),
        (since_last < timedelta(minutes=15)).fill_null(value=False).alias("is_repeat"),
    )


def changes(world: World) -> pl.DataFrame:
    """Return the changes that people and routers made."""
    return pl.DataFrame(
        [
            {
                "at": instant(one["action"]["timestamp"]),
                "actor_email": one["actor"].get("email"),
                "action_type": one["action"]["type_name"],
                "object_type": one["object"]["type_name"],
            }
            for one in lists.log_changes(world)
        ],
        infer_schema_length=None,
    )


def security(world: World) -> pl.DataFrame:
    """Return the alerts and activities of high and medium severity."""
    found = [("alert", one["type"], one["detected_at"]) for one in world.records("alerts")]
    logs = [one["action"] for one in world.records("activity_logs")]
    found += [("activity", one["type_name"], one["timestamp"]) for one in logs]
    return pl.DataFrame(
        [
            {"at": instant(at), "event_type": kind, "severity": lists.SECURITY[source, kind]}
            for source, kind, at in found
            if (source, kind) in lists.SECURITY
        ]
    )


def wan_days(world: World) -> pl.DataFrame:
    """Return the days of routers; other devices have no WAN of their own."""
    routers = devices(world).filter(pl.col("device_type") == "router").select("router_id")
    return days(world).join(routers, on="router_id")


def days(world: World) -> pl.DataFrame:
    """Return, for each device and UTC day, its seconds offline, on a backup and known."""
    backups = links.spans_of(links.episodes(world), world)
    outages = links.spans_of(links.offline(world), world)
    found = []
    for router, *_ in lists.router_names(world).rows():
        known_from = world.known_from(router)
        told = [(a, b) for a, b in outages.get(router, []) if b - a >= TOLD]
        day = midnight(known_from)
        while day < world.now:
            first, last = max(day, known_from), min(day + DAY, world.now)
            off, either = (
                [(max(a, first), min(b, last)) for a, b in spans if a < last and b > first]
                for spans in (
                    outages.get(router, []),
                    [*outages.get(router, []), *backups.get(router, [])],
                )
            )
            offline, known = links.seconds(off), (last - first).total_seconds()
            found.append(
                {
                    "router_id": router,
                    "at": day,
                    "known": known,
                    "offline": offline,
                    "backup": links.seconds(either) - offline,
                    "spells": len([1 for a, b in told if a < last and b > first]),
                }
            )
            day += DAY
    return pl.DataFrame(found)


def batteries(world: World) -> pl.DataFrame:
    """Return the reports of batteries that both loads saw."""
    rows = [one for at in (FIRST, END) for one in world.polls[at]["batteries"]]
    return as_frame(rows).with_columns(
        pl.col("updated_at").alias("at"), pl.col("router").alias("router_id")
    )


def batteries_now(world: World) -> pl.DataFrame:
    """Return the batteries as they are listed."""
    return world.frame("batteries").with_columns(pl.col("router").alias("router_id"))


def modems(world: World) -> pl.DataFrame:
    """Return the modems as they are listed."""
    return pl.DataFrame(lists.interfaces(world), infer_schema_length=None).filter(
        pl.col("imei").is_not_null()
    )


def licences(world: World) -> pl.DataFrame:
    """Return the licences of devices, and devices without one."""
    rows = [
        one | {"days_left": (one["ends_at"] - world.now) // DAY if one["ends_at"] else None}
        for one in lists.licences(world)
    ]
    return pl.DataFrame(rows, infer_schema_length=None)


def trips(world: World) -> pl.DataFrame:
    """Return the trips; some may not have left all of their fixes."""
    edge = [~links.is_at_work(pl.col("local") + by) for by in (-LATE, timedelta(), LATE)]
    return (
        places.trips(world)
        .drop("router_name")
        .with_columns(
            pl.col("started_at").alias("at"),
            links.is_at_work(pl.col("local")).alias("is_working_hours"),
            pl.col("unsure") | (pl.any_horizontal(edge) & ~pl.all_horizontal(edge)),
        )
    )


def vehicle_fixes(world: World) -> pl.DataFrame:
    """Return the fixes of vehicles."""
    vehicles = world.frame("reporting").filter("is_vehicle")
    return places.fixes(world).join(vehicles, on="router_id")


def nothing(world: World) -> pl.DataFrame:
    """Return no row: nothing of the kind is in this world."""
    del world
    return pl.DataFrame({"at": [], "router_id": []}, schema={"at": pl.Date, "router_id": pl.Int64})


Table = Callable[[World], pl.DataFrame]
WITHIN_S = pl.len() * FEW_S


@dataclass(frozen=True)
class Truth:
    """A metric: the table of what happened, the value, and by how much an answer may be off.

    With `most`, the value is the least that an answer may be.
    """

    table: Table
    value: pl.Expr
    off: Any = 0.0
    most: pl.Expr | None = None


def _share(part: pl.Expr) -> pl.Expr:
    return 100 * part / pl.col("known").sum()


SURE = ~pl.col("unsure")
CONNECTED = pl.col("known").sum() - pl.col("offline").sum()
PRIMARY = CONNECTED - pl.col("backup").sum()
TRUTH: Mapping[str, Truth] = {
    "devices": Truth(devices, pl.len()),
    "online_devices": Truth(devices, (pl.col("connection_state") == "online").sum()),
    "offline_devices": Truth(devices, (pl.col("connection_state") == "offline").sum()),
    "behind_devices": Truth(devices, pl.col("is_behind").sum()),
    "reboot_devices": Truth(devices, pl.col("is_reboot_required").sum()),
    "modems": Truth(modems, pl.len()),
    "licences": Truth(licences, pl.len()),
    "licences_ending": Truth(licences, pl.col("days_left").is_between(0, 30).sum()),
    "batteries": Truth(batteries_now, pl.len()),
    "mean_battery_health_pct": Truth(batteries_now, pl.col("health").mean()),
    "reported_batteries": Truth(batteries, pl.col("id").n_unique()),
    "hottest_battery_c": Truth(batteries, pl.col("temp").max()),
    "failovers": Truth(failovers, pl.len()),
    "failover_s": Truth(failovers, pl.col("s").sum(), WITHIN_S),
    "median_failover_s": Truth(failovers, pl.col("s").median(), 2.0),
    "failover_cost": Truth(
        failovers, pl.col("bytes").sum() / 1e9 * links.PRICE_PER_GB, pl.len() * 0.00005
    ),
    "backup_bytes": Truth(failovers, pl.col("bytes").sum()),
    "failed_over_routers": Truth(failovers, pl.col("router_id").n_unique()),
    "working_failovers": Truth(failovers, pl.col("is_working_hours").sum()),
    "used_bytes": Truth(usage, (pl.col("bytes_in") + pl.col("bytes_out")).sum()),
    "received_bytes": Truth(usage, pl.col("bytes_in").sum()),
    "sent_bytes": Truth(usage, pl.col("bytes_out").sum()),
    "rsrp_samples": Truth(signal, pl.col("rsrp").count()),
    "mean_rsrp_dbm": Truth(signal, pl.col("rsrp").mean(), links.MEAN),
    "worst_rsrp_dbm": Truth(signal, pl.col("rsrp").min()),
    "mean_sinr_db": Truth(signal, pl.col("sinr").mean(), links.MEAN),
    "weak_signal_pct": Truth(
        signal, 100 * (pl.col("rsrp") < -110).sum() / pl.col("rsrp").count(), links.MEAN
    ),
    "alerts": Truth(alerts, pl.len()),
    "alert_repeats": Truth(alerts, pl.col("is_repeat").sum()),
    "alert_repeat_pct": Truth(alerts, 100 * pl.col("is_repeat").sum() / pl.len()),
    "alerting_devices": Truth(alerts, pl.col("router_id").drop_nulls().n_unique()),
    "changes": Truth(changes, pl.len()),
    "security_events": Truth(security, pl.len()),
    "availability_pct": Truth(wan_days, _share(CONNECTED), SHARE),
    "primary_availability_pct": Truth(wan_days, _share(PRIMARY), SHARE),
    "known_s": Truth(wan_days, pl.col("known").sum(), pl.len() * 10 * FEW_S),
    "offline_s": Truth(wan_days, pl.col("offline").sum(), WITHIN_S),
    "unknown_s": Truth(wan_days, pl.lit(0.0), pl.len() * FEW_S),
    "backup_s": Truth(wan_days, pl.col("backup").sum(), WITHIN_S),
    "device_availability_pct": Truth(days, _share(CONNECTED), SHARE),
    "device_offline_s": Truth(days, pl.col("offline").sum(), WITHIN_S),
    "offline_spells": Truth(days, pl.col("spells").sum()),
    "trips": Truth(trips, SURE.sum(), most=pl.len() + pl.col("unsure").sum() + 1),
    "driven_km": Truth(
        trips,
        pl.col("km").filter(SURE).sum() * 0.95 - 1,
        most=pl.col("km").sum() * 1.05 + 20,
    ),
    "driven_vehicles": Truth(
        trips,
        pl.col("router_id").filter(SURE).n_unique(),
        most=pl.col("router_id").n_unique(),
    ),
    "top_speed_kmh": Truth(vehicle_fixes, pl.col("mph").max() * places.MILE_KM, 0.556),
    "holes": Truth(nothing, pl.len()),
    "quarantined_records": Truth(nothing, pl.len()),
}


@cache
def _rows(world: World, table: Table) -> pl.DataFrame:
    return table(world)


Key = tuple[Any, ...]
Limits = dict[Key, tuple[Any, Any]]


def expected(
    world: World,
    metric: str,
    *,
    by: Iterable[str] = (),
    grain: str = "",
    since: date | None = None,
    until: date | None = None,
    only: Mapping[str, object] | None = None,
) -> Limits:
    """Return the least and the most that a metric may be, for each value of the dimensions."""
    truth = TRUTH[metric]
    rows = _rows(world, truth.table)
    if "router_id" in rows.columns and rows.height:
        told = _rows(world, devices)
        new = [name for name in told.columns if name not in rows.columns]
        rows = rows.join(told.select("router_id", *new), on="router_id", how="left")
    for name, value in (only or {}).items():
        column = "router_id" if name == "router" else _named(name)
        rows = rows.filter(pl.col(column).cast(pl.String) == str(value))
    if since is not None:
        rows = rows.filter(pl.col("at").dt.date() >= since)
    if until is not None:
        rows = rows.filter(pl.col("at").dt.date() < until)
    keys = [pl.col("at").dt.truncate(TRUNCATED[grain]).dt.date().alias(grain)] if grain else []
    for name in by:
        columns = ("router_id", "router_name") if name == "router" else (_named(name),)
        keys += map(pl.col, columns)
    least = truth.value if truth.most is not None else truth.value - truth.off
    most = truth.most if truth.most is not None else truth.value + truth.off
    values = [least.alias("least"), most.alias("most")]
    found = rows.group_by(keys).agg(values) if keys else rows.select(values)
    return {key_of(row[:-2]): (row[-2], row[-1]) for row in found.rows()}


def key_of(values: Iterable[Any]) -> Key:
    """Return the values of dimensions as JSON has them."""
    return tuple(json.loads(json.dumps([*values], default=str)))


def _named(name: str) -> str:
    return f"{name}_name" if name in DIMENSIONS else name
