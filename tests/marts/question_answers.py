"""What the questions' answers must be, from the simulated world: devices, lists and records."""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import polars as pl

from fleetlake.endpoints import ENDPOINTS
from tests.marts.question_world import Between, Record, World, about, id_of, instant
from tests.support.service import keys

Rows = list[Record]
DAY, SOON = timedelta(days=1), timedelta(minutes=1)


def counted(values: Iterable[Any], *names: str, count: str) -> Rows:
    """Return a row per distinct value or tuple of values, with how often it is there."""
    keys = ((v if isinstance(v, tuple) else (v,)) for v in values)
    return [dict(zip(names, key, strict=True)) | {count: n} for key, n in Counter(keys).items()]


def named(world: World, resource: str) -> dict[int | None, str]:
    """Return the names of a list's records by id."""
    return {int(one["id"]): one["name"] for one in world.records(resource)}


def router_names(world: World) -> pl.DataFrame:
    """Return the id, name and time zone of each router."""
    return world.frame("routers").select(
        pl.col("id").cast(pl.Int64).alias("router_id"),
        pl.col("name").alias("router_name"),
        pl.col("locality").alias("zone"),
    )


def devices(world: World) -> Rows:
    """Return each device with what its record and those that it refers to say."""
    accounts, groups = named(world, "accounts"), named(world, "groups")
    versions = {int(one["id"]): one["version"] for one in world.records("firmwares")}
    return [
        {
            "router_name": one["name"],
            "connection_state": one["state"],
            "account_name": accounts[id_of(one["account"])],
            "group_name": groups.get(id_of(one["group"])),
            "product_name": one["full_product_name"],
            "firmware_version": versions[id_of(one["actual_firmware"])],
            "is_behind": one["actual_firmware"] != one["target_firmware"],
            "config_status": one["config_status"],
            "is_unsynched": one["config_status"] != "synched",
            "is_reboot_required": one["reboot_required"],
            "is_upgrade_pending": one["upgrade_pending"],
        }
        for one in world.records("routers")
    ]


def devices_by(*names: str) -> Callable[[World], Rows]:
    """Count the devices by some columns."""
    return lambda world: counted(
        (tuple(one[name] for name in names) for one in devices(world)), *names, count="devices"
    )


def devices_where(member: str, *names: str) -> Callable[[World], Rows]:
    """Name the devices of which a member is true."""
    return lambda world: [
        {name: one[name] for name in ("router_name", *names)}
        for one in devices(world)
        if one[member]
    ]


def devices_behind(world: World) -> Rows:
    """Count the devices of each product and firmware, and those that should have another."""
    rows = devices_by("product_name", "firmware_version")(world)
    behind = Counter(
        (one["product_name"], one["firmware_version"]) for one in devices(world) if one["is_behind"]
    )
    return [row | {"behind": behind[row["product_name"], row["firmware_version"]]} for row in rows]


def devices_online(world: World) -> Rows:
    """Count the devices of each account and product, and those that are online."""
    found: dict[tuple[str, str], list[bool]] = defaultdict(list)
    for one in devices(world):
        is_online = one["connection_state"] == "online"
        found[one["account_name"], one["product_name"]].append(is_online)
    return [
        {"account_name": a, "product_name": p, "devices": len(on), "online": sum(on)}
        for (a, p), on in found.items()
    ]


def interfaces(world: World) -> Rows:
    """Return each listed modem and port, with its router's name."""
    names = named(world, "routers")
    return [
        {
            "net_device_id": int(one["id"]),
            "router_id": id_of(one["router"]),
            "router_name": names.get(id_of(one["router"])),
            "interface": one["uid"],
            "modem_firmware": one["modem_fw"],
            **{name: one[name] for name in ("carrier", "imei", "iccid", "mdn", "apn")},
        }
        for one in world.records("net_devices")
    ]


def interfaces_where(member: str, *names: str) -> Callable[[World], Rows]:
    """Return some columns of the interfaces that have a member."""
    return lambda world: [
        {name: one[name] for name in names} for one in interfaces(world) if one[member] is not None
    ]


def moved_cards(world: World) -> Rows:
    """Return each modem whose router or SIM card differs from that of the poll before."""
    names, found = named(world, "routers"), []
    lists = [(at, poll["net_devices"]) for at, poll in world.polls.items() if "net_devices" in poll]
    for (_, before), (at, after) in pairwise(lists):
        earlier = {one["id"]: one for one in before if one["iccid"]}
        for one in after:
            old = earlier.get(one["id"])
            if old is None or not one["iccid"]:
                continue
            places = [(id_of(each["router"]), each["iccid"]) for each in (old, one)]
            if places[0] != places[1]:
                found.append(
                    {
                        "changed_at": Between(at, at + SOON),
                        "router_name": names.get(places[1][0]),
                        "interface": one["uid"],
                        "sim_change": "modem moved",  # no card of this world leaves its modem
                        "from_iccid": old["iccid"],
                        "iccid": one["iccid"],
                        "from_carrier": old["carrier"],
                        "carrier": one["carrier"],
                    }
                )
    return found


def licences(world: World) -> Rows:
    """Return each device with each of its licences and its end; None for none."""
    kinds = {
        one["id"]: (
            one["relationships"]["subscription_type"]["data"]["id"],
            instant(one["attributes"]["end_time"]),
        )
        for one in world.sim.truth("asset_endpoint_subscriptions")
    }
    names = {one["mac"].replace(":", ""): one["name"] for one in world.records("routers")}
    found = []
    for asset in world.sim.truth("asset_endpoints"):
        mac = asset["attributes"]["mac_address"]
        ids = [one["id"] for one in asset["relationships"]["subscriptions"]["data"]]
        for kind, ends_at in [kinds[one] for one in ids] or [(None, None)]:
            found.append(
                {
                    "router_name": names[mac],
                    "mac": ":".join(mac[n : n + 2] for n in range(0, len(mac), 2)),
                    "licence": kind,
                    "ends_at": ends_at,
                }
            )
    return found


def licences_ending(world: World) -> Rows:
    """Return the licences that end within 90 days."""
    return [
        {
            **{name: one[name] for name in ("router_name", "licence", "ends_at")},
            "days_left": (one["ends_at"] - world.now) // DAY,
        }
        for one in licences(world)
        if one["ends_at"] and timedelta() < one["ends_at"] - world.now < 90 * DAY
    ]


def unlicensed(world: World) -> Rows:
    """Return the devices all of whose licences have ended, with the last end."""
    ends: dict[tuple[str, str], list[datetime | None]] = defaultdict(list)
    for one in licences(world):
        ends[one["router_name"], one["mac"]].append(one["ends_at"])
    lasts = {key: max((end for end in own if end), default=None) for key, own in ends.items()}
    return [
        {"router_name": name, "mac": mac, "last_end_at": last}
        for (name, mac), last in lasts.items()
        if last is None or last <= world.now
    ]


def alerts_by_type(world: World) -> Rows:
    """Count the alerts of each type."""
    return counted((one["type"] for one in world.records("alerts")), "alert_type", count="alerts")


def noisy_alerts(world: World) -> Rows:
    """Count the alerts of each type, their devices, and those soon after another one."""
    alerts = world.frame("alerts").sort("detected_at")
    of_thing = ["type", "router", pl.when(pl.col("router").is_null()).then(pl.col("account"))]
    since_last = (pl.col("detected_at") - pl.col("detected_at").shift()).over(of_thing)
    rows = (
        alerts.with_columns((since_last < timedelta(minutes=15)).alias("is_repeat"))
        .group_by(pl.col("type").alias("alert_type"))
        .agg(
            pl.len().alias("alerts"),
            (100 * pl.col("is_repeat").sum() / pl.len()).alias("repeat_pct"),
            pl.col("router").drop_nulls().n_unique().alias("devices"),
        )
    )
    return [row | {"repeat_pct": about(row["repeat_pct"], 0.51)} for row in rows.to_dicts()]


def alerts_of_yesterday(world: World) -> Rows:
    """Return the alerts of the day before, without repeats, each with how many follow it."""
    names = router_names(world)
    runs: dict[tuple[Any, Any], list[list[Record]]] = defaultdict(list)
    for one in sorted(world.records("alerts"), key=lambda one: instant(one["detected_at"])):
        router = id_of(one["router"])
        own = runs[one["type"], router or one["account"]]
        if not own or _apart(own[-1][-1], one) >= timedelta(minutes=15):
            own.append([])
        own[-1].append(one | {"router_id": router})
    named_as = dict(zip(names["router_id"], names["router_name"], strict=True))
    return [
        {
            "detected_at": instant(first["detected_at"]),
            "router_name": named_as.get(first["router_id"]),
            "alert_type": first["type"],
            "description": first["friendly_info"],
            "repeats": len(rest),
        }
        for own in runs.values()
        for first, *rest in own
        if instant(first["detected_at"]).date() == world.now.date() - DAY
    ]


def _apart(one: Record, other: Record) -> timedelta:
    return instant(other["detected_at"]) - instant(one["detected_at"])


SECURITY = {
    ("alert", "ips_activity"): "high",
    ("alert", "account_locked"): "high",
    ("alert", "ip_banned"): "high",
    ("alert", "mgr_login_failure"): "medium",
    ("alert", "unrecognized_mac_alert"): "medium",
    ("activity", "account locked"): "high",
    ("activity", "login failed"): "medium",
}
"""The types of this world's records that are not of low severity in `security_event_types.csv`."""


def security_events(world: World) -> Rows:
    """Count the alerts and activities of each type and person that are relevant to security."""
    times: dict[tuple[str | None, ...], list[datetime]] = defaultdict(list)
    for one in world.records("alerts"):
        if severity := SECURITY.get(("alert", one["type"])):
            text = one["friendly_info"]
            login = re.match(r"Login of user (\S+) from (\S+) failed", text)
            ban = re.match(r"()(\d+[.]\S+) is banned", text)
            who = (
                tuple(part or None for part in told.groups())
                if (told := login or ban)
                else (None, None)
            )
            times[severity, one["type"], *who].append(instant(one["detected_at"]))
    for one in world.records("activity_logs"):
        action = one["action"]
        if severity := SECURITY.get(("activity", action["type_name"])):
            key = (severity, action["type_name"], one["actor"].get("email"), None)
            times[key].append(instant(action["timestamp"]))
    names = ("severity", "event_type", "actor", "ip_address")
    return [
        dict(zip(names, key, strict=True)) | {"times": len(own), "last_at": max(own)}
        for key, own in times.items()
    ]


def log_changes(world: World) -> Rows:
    """Return the activities that changed something."""
    others = ("login", "logout", "login failed", "request", "report")
    return [
        one for one in world.records("activity_logs") if one["action"]["type_name"] not in others
    ]


def changes_this_week(world: World) -> Rows:
    """Return who changed what within the last seven days: a person, or a router itself."""
    routers = {str(key): name for key, name in named(world, "routers").items()}
    found = []
    for one in log_changes(world):
        actor, thing = one["actor"], one["object"]
        at, is_router = instant(one["action"]["timestamp"]), thing["type_name"] == "router"
        names = routers if is_router else _group_names(world, at)
        name = thing.get("user", {}).get("email") or names.get(thing["id"], thing["id"])
        who = actor.get("email") or actor["name"]
        found.append(
            {
                "acted_at": at,
                "router_name": name if is_router else None,
                "summary": f"{who} {one['action']['type_name']}: {thing['type_name']} {name}",
            }
        )
    return [row for row in found if row["acted_at"] > world.now - 7 * DAY]


def _group_names(world: World, at: datetime) -> dict[str, str]:
    """Return the groups' names as the last poll before an instant saw them: names change."""
    lists = {moment: poll["groups"] for moment, poll in world.polls.items() if "groups" in poll}
    seen = max((moment for moment in lists if moment <= at), default=min(lists))
    return {one["id"]: one["name"] for one in lists[seen]}


def changes_by_person(world: World) -> Rows:
    """Count the changes of each user."""
    people = [one["actor"] for one in log_changes(world)]
    emails = (one["email"] for one in people if one.get("email"))
    return counted(emails, "actor_email", count="changes")


WATCHED = {
    "router_name": "name",
    "account_id": "account",
    "group_id": "group",
    "actual_firmware_id": "actual_firmware",
    "target_firmware_id": "target_firmware",
    "connection_state": "state",
    "config_status": "config_status",
    "ipv4_address": "ipv4_address",
    "asset_tag": "asset_id",
    "description": "description",
}
"""The columns of a device's history whose changes are told, and the record's members."""


def versions(world: World) -> Rows:
    """Return what each poll saw that had changed in the record of the first device by name."""
    first = min(one["name"] for one in world.records("routers"))
    found: Rows = []
    before: Record = {}
    for at, poll in world.polls.items():
        [record] = [one for one in poll.get("routers", [before]) if one["name"] == first]
        if record == before:
            continue
        told = [
            f"{column}: {_shown(before.get(member))} -> {_shown(record[member])}"
            for column, member in WATCHED.items()
            if before.get(member) != record[member]
        ]
        row = {
            "router_name": first,
            "version_number": len(found) + 1,
            "valid_from": Between(at, at + SOON),
            "changes": "; ".join(told) if found else "first seen",
        }
        found, before = [*found, row], record
    return found


def _shown(value: str | None) -> str:
    return "none" if not value else str(id_of(value)) if value.startswith("http") else value


SERIES = {
    "alerts": "created_at",
    "failovers": "started_at",
    "historical_locations": "created_at",
    "net_device_signal_samples": "created_at",
    "net_device_usage_samples": "created_at",
    "router_alerts": "created_at",
    "router_logs": "created_at",
    "router_state_samples": "created_at",
    "router_stream_usage_samples": "created_at",
}
"""The lists of events, and when each event was; any other list is as new as its last read."""


def newest_events(world: World) -> Rows:
    """Return the newest event of each list; nothing is missing, and unreadable is what has no id.

    A push is not a list. The load may have seen an event of the last minute.
    """
    logs = [instant(one["action"]["timestamp"]) for one in world.records("activity_logs")]
    newest = {name: world.frame(name)[member].max() for name, member in SERIES.items()}
    newest["activity_logs"] = max(logs)
    address = "/api/v2/configuration_managers/?limit=500"
    served = json.loads(world.sim.ask("GET", address, headers=keys()).text, strict=False)
    unreadable = {"configuration_managers": sum(not one["id"] for one in served["data"])}
    return [
        {
            "endpoint": name,
            "newest_event_at": Between(newest.get(name, world.now - SOON), world.now + SOON),
            **dict.fromkeys(("holes", "open_gaps"), 0),
            "quarantined": unreadable.get(name, 0),
        }
        for name in ENDPOINTS
        if name != "pushed_alerts"
    ]
