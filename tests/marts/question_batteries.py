"""What the questions' answers must be, from the simulated world: batteries and attention."""

from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import polars as pl

from tests.marts.question_answers import DAY, Rows, licences, named, unlicensed
from tests.marts.question_links import CAP_BYTES, episodes, lines, offline
from tests.marts.question_places import unlocated
from tests.marts.question_world import UNSURE, Between, Record, World, about, id_of, instant

HOT_C, WARM_C = 50, 35
WORN_PCT, AGED_PCT = 62, 70
HOUR = timedelta(hours=1)


def readings(world: World) -> dict[str, Rows]:
    """Return the different reports of each battery that polls served, oldest first."""
    found: dict[str, dict[datetime, Record]] = defaultdict(dict)
    for poll in world.polls.values():
        for one in poll["batteries"]:
            found[one["id"]][instant(one["updated_at"])] = one
    return {key: [own[at] | {"at": at} for at in sorted(own)] for key, own in found.items()}


def _name(world: World, reading: Record) -> str:
    return named(world, "routers")[id_of(reading["router"])]


def _bridged(rows: Rows) -> list[tuple[Record, Record]]:
    """Return the reports that follow one another within six hours: the others are far apart."""
    return [(a, b) for a, b in pairwise(rows) if b["at"] - a["at"] <= 6 * HOUR]


def _above(before: float, after: float, level: float) -> tuple[float, float]:
    """Return the share of time that a straight line is above a level, and how far on average."""
    high, low = max(before, after) - level, min(before, after) - level
    if high <= 0:
        return 0.0, 0.0
    share = 1.0 if low >= 0 else high / (high - low)
    return share, (high + low) / 2 if low >= 0 else share * high / 2


def heat(world: World) -> Rows:
    """Return each battery's highest temperature, and its time and degree hours of heat.

    A temperature is a whole number, so that the time above a level is uncertain.
    """
    found = []
    for own in readings(world).values():
        hot = warm = unsure = 0.0
        for a, b in _bridged(own):
            hours = (b["at"] - a["at"]) / HOUR
            hot += hours * _above(a["temp"], b["temp"], HOT_C)[0]
            unsure += hours * (max(a["temp"], b["temp"]) >= HOT_C)
            warm += hours * _above(a["temp"], b["temp"], WARM_C)[1]
        found.append(
            {
                "router_name": _name(world, own[-1]),
                "max_temperature_c": max(one["temp"] for one in own),
                "hours_too_hot": Between(hot - 0.05, hot + 0.05 + unsure),
                "heat_degree_hours": about(warm, 0.1),
            }
        )
    return found


def discharges(world: World) -> Rows:
    """Return the number, longest duration and least charge of the discharges that polls saw."""
    found = []
    for own in readings(world).values():
        runs: list[Rows] = []
        pairs = {id(b) for _, b in _bridged(own)}
        for before, one in pairwise([{"milliamps": 0}, *own]):
            if one["milliamps"] >= 0:
                continue
            if before["milliamps"] < 0 and id(one) in pairs:
                runs[-1].append(one)
            else:
                runs.append([one])
        if runs:
            longest = max((run[-1]["at"] - run[0]["at"]) / HOUR * 60 for run in runs)
            found.append(
                {
                    "router_name": _name(world, own[-1]),
                    "discharges": len(runs),
                    "longest_min": about(longest, 0.51),
                    "lowest_pct": min(run[-1]["rsoc"] for run in runs),
                }
            )
    return found


def battery_alerts(world: World) -> Rows:
    """Return how often each battery alert was given: each has its cause, which a poll may show."""
    kinds = [one["type"] for one in world.records("alerts") if one["type"].startswith("batt_")]
    return [{"alert_type": kind, "times": kinds.count(kind)} for kind in sorted({*kinds})]


def of_alerts(answer: Rows) -> Rows:
    """Return how often the checked alerts of each type were right or had no reading near."""
    times: Counter[str] = Counter()
    for row in answer:
        if row["verdict"] in ("confirmed", "no reading near"):
            times[row["alert_type"]] += row["times"]
    return [{"alert_type": kind, "times": n} for kind, n in times.items()]


def risks(world: World) -> Rows:
    """Return the batteries at risk, as their records, alerts and temperatures say."""
    alerts = defaultdict(list)
    for one in world.records("alerts"):
        if one["type"].startswith("batt_"):
            alerts[id_of(one["router"])].append(one["type"])
    hot = {row["router_name"] for row in heat(world) if row["hours_too_hot"].low > 0}
    found = []
    for own in readings(world).values():
        newest = own[-1]
        kinds = alerts[id_of(newest["router"])]
        drained = max(map(kinds.count, ("batt_sys_low_power_alert", "batt_sys_power_off_alert")))
        charged = sum(map(kinds.count, ("batt_over_current_alert", "batt_over_voltage_alert")))
        health, name = newest["health"], _name(world, newest)
        if health <= WORN_PCT:
            risk = "high"
        elif health <= AGED_PCT or charged or drained >= 3 or name in hot:
            risk = "medium"
        else:
            continue
        found.append({"router_name": name, "risk": risk, "health_pct": health})
    return found


def worn_dates(world: World) -> Rows:
    """Return the batteries that are not worn, as they were last reported."""
    return [
        {
            "router_name": _name(world, own[-1]),
            "health_pct": own[-1]["health"],
            "predicted_worn_at": Between(world.now, world.now + 365 * DAY),
            UNSURE: True,
        }
        for own in readings(world).values()
        if own[-1]["health"] > WORN_PCT
    ]


def lines_over_cap(world: World) -> Rows:
    """Return the lines of this month that use more than their cap if they go on so."""
    found = []
    newest = lines(world).filter(pl.col("month_date") == pl.col("month_date").max())
    for one in newest.filter(pl.col("carrier").is_not_null()).to_dicts():
        ends_at = datetime(one["month_date"].year, one["month_date"].month + 1, 1, tzinfo=UTC)
        rate = one["bytes"] / (world.now - one["first"]).total_seconds()
        projected = rate * (ends_at - one["first"]).total_seconds()
        if projected > 0.98 * CAP_BYTES:
            used = 100 * one["bytes"] / CAP_BYTES
            whole = 100 * projected / CAP_BYTES
            found.append(
                {name: one[name] for name in ("router_name", "interface", "carrier")}
                | {
                    "cap_used_pct": about(used, 0.006),
                    "cap_projected_pct": about(whole, whole / 50),
                }
                | {UNSURE: projected < 1.02 * CAP_BYTES}
            )
    return found


def attention(world: World) -> Rows:
    """Return what is the matter with each router, in which mart, and how urgent that is.

    How urgent a forecast is depends on a rate, so that each urgency may be there or not.
    """
    names = named(world, "routers")
    left = offline(world).filter(pl.col("ended_at").is_null()).to_dicts()
    off = {names[one["router_id"]]: world.now - one["started_at"] for one in left}
    on_backup = episodes(world).filter(pl.col("ended_at").is_null()).to_dicts()
    health = {_name(world, own[-1]): own[-1]["health"] for own in readings(world).values()}
    sure = [
        *(
            ("failover_now", one["router_name"], _since(one["s"] / 3600, 24, 1))
            for one in on_backup
        ),
        *(
            ("device_availability_daily", n, "urgent" if s >= HOUR else "soon")
            for n, s in off.items()
        ),
        *(("battery_risk", name, "urgent") for name, pct in health.items() if pct <= WORN_PCT),
        *(("failover_episodes", name, "watch") for name in flapping(world)),
        *(
            ("location_gaps", one["router_name"], "watch" if one["router_name"] in off else "soon")
            for one in unlocated(world)
        ),
        *(
            ("licences", one["router_name"], _since(-days, -5, -30))
            for one in licences(world)
            if one["ends_at"] and -30 <= (days := (one["ends_at"] - world.now) / DAY) <= 90
        ),
        *(
            ("licences", one["router_name"], "soon")
            for one in unlicensed(world)
            if one["last_end_at"] is None or world.now - one["last_end_at"] > 30 * DAY
        ),
    ]
    forecasts = [
        *(("battery_risk", name, s) for name in health for s in ("soon", "watch")),
        *(
            ("data_usage_month", one["router_name"], s)
            for one in lines_over_cap(world)
            for s in ("urgent", "soon", "watch")
        ),
    ]
    return [
        {"mart": mart, "router_name": name, "severity": severity, UNSURE: (n >= len(sure))}
        for n, (mart, name, severity) in enumerate([*sure, *forecasts])
    ]


def _since(value: float, urgent: float, soon: float) -> str:
    """Return how urgent a value is that has reached one of two levels."""
    return "urgent" if value >= urgent else "soon" if value >= soon else "watch"


def flapping(world: World) -> list[str]:
    """Return the routers with three failovers in a row, of which the last ended within a day."""
    found = []
    for (name,), own in episodes(world).sort("started_at").group_by("router_name"):
        groups: list[list[tuple[datetime, datetime]]] = []
        for span in own.select("started_at", "until").rows():
            reached = max((until for _, until in groups[-1]), default=None) if groups else None
            if reached is None or span[0] - reached >= timedelta(minutes=15):
                groups.append([])
            groups[-1].append(span)
        recent = [g for g in groups if max(until for _, until in g) >= world.now - DAY]
        if any(len(group) >= 3 for group in recent):
            found.append(name)
    return found
