from collections import Counter, defaultdict
from datetime import timedelta
from itertools import pairwise
from math import cos, hypot, radians

import pytest

from tests.simulator.sections import section
from tests.support.service import NOW, Service, instant, last_segment, shared, start

MOMENT = timedelta(seconds=3)


@pytest.fixture(scope="module")
def world() -> Service:
    return shared(days=14, routers=60)


@pytest.fixture(scope="module")
def alerts(world: Service) -> dict[tuple[str, str], list]:
    """Return the times of alerts by router and type."""
    found = defaultdict(list)
    for alert in world.truth("alerts"):
        if alert["router"]:
            found[last_segment(alert["router"]), alert["type"]].append(alert)
    return found


def has_alert(alerts, router, kind, at, within=MOMENT):
    """Return whether an alert was detected at a time, to the second, and created soon after."""
    return any(
        at - timedelta(seconds=1) <= instant(alert["detected_at"]) <= at + timedelta(seconds=1)
        and timedelta(0)
        <= instant(alert["created_at"]) - instant(alert["detected_at"])
        <= within + MOMENT
        for alert in alerts[str(router), kind]
    )


def over(facts):
    return [
        fact
        for fact in facts
        if fact["ended_at"] and instant(fact["ended_at"]) < NOW - timedelta(minutes=2)
    ]


@section("Events: Alert types")
def test_primary_outage_shows_as_disconnect_failover_and_reconnect_alerts(world: Service, alerts):
    drifting = {r["router_id"] for r in world.truth("reporting") if r["has_drifting_clock"]}
    episodes = [e for e in over(world.truth("failover_episodes")) if e["router_id"] not in drifting]

    for episode in episodes:
        router = episode["router_id"]
        wired = episode["from_interface"] == "ethernet"
        lost = "ethernet_wan_disconnected" if wired else "modem_wan_disconnected"
        lost = "ethernet_wan_unplugged" if episode["reason"] == "cable unplugged" else lost
        back = "ethernet_wan_connected" if wired else "modem_wan_connected"
        second = timedelta(seconds=1)
        assert has_alert(alerts, router, lost, instant(episode["outage_started_at"]) + second)
        assert has_alert(alerts, router, "failover_event", instant(episode["started_at"]))
        assert has_alert(alerts, router, back, instant(episode["ended_at"]) + second)
    assert len(episodes) > 50


@section("Events: Alert types")
def test_there_is_exactly_one_failover_event_per_failover(world: Service, alerts):
    events = {
        router: len(found) for (router, kind), found in alerts.items() if kind == "failover_event"
    }

    wanted = Counter(str(episode["router_id"]) for episode in world.truth("failover_episodes"))

    assert sum(events.values()) in (wanted.total(), wanted.total() - 1)
    assert set(events) <= set(wanted)


@section("Observed: Fields")
def test_failovers_are_the_episodes_that_happened(world: Service):
    records = list(world.walk("failovers/?limit=500"))

    episodes = world.truth("failover_episodes")
    assert sorted(
        (
            r["router_id"],
            instant(r["started_at"]),
            r["ended_at"] and instant(r["ended_at"]),
            r["data_usage"],
        )
        for r in records
        if r["ended_at"]
    ) == sorted(
        (e["router_id"], instant(e["started_at"]), instant(e["ended_at"]), e["data_usage_bytes"])
        for e in episodes
        if e["ended_at"]
    )
    assert len(records) == len(episodes)


@section("Observed: Fields")
def test_failover_grows_until_it_ends(make_service):
    service = make_service(routers=200, days=2)
    running = service.records("failovers/?ended_at__isnull=true&limit=500")
    first = running[0]

    service.advance(minutes=30)

    after = {r["uuid"]: r for r in service.walk("failovers/?limit=500")}[first["uuid"]]
    assert after["elapsed_time"] > first["elapsed_time"] >= 0
    assert after["data_usage"] >= first["data_usage"]
    assert instant(after["updated_at"]) > instant(first["updated_at"])
    service.advance(days=2)
    ended = {r["uuid"]: r for r in service.walk("failovers/?limit=500")}[first["uuid"]]
    span = instant(ended["ended_at"]) - instant(ended["started_at"])
    assert ended["elapsed_time"] == int(span.total_seconds())


@section("Observed: Fields")
def test_failovers_last_from_a_minute_to_many_hours(world: Service):
    episodes = over(start(days=14, routers=400).truth("failover_episodes"))

    hours = [
        (instant(e["ended_at"]) - instant(e["started_at"])).total_seconds() / 3600 for e in episodes
    ]
    assert min(hours) < 0.05
    assert max(hours) > 5
    assert 0.2 < len(episodes) / 400 / 14 < 0.4
    assert world.truth("failover_episodes")


@section("Observed: Fields")
def test_traffic_moves_to_the_backup_modem_during_an_outage(world: Service):
    episode = max(
        over(world.truth("failover_episodes")),
        key=lambda e: instant(e["ended_at"]) - instant(e["started_at"]),
    )
    begin, end = instant(episode["started_at"]), instant(episode["ended_at"])
    devices = {
        r["name"]: r["id"] for r in world.records(f"net_devices/?router={episode['router_id']}")
    }
    record = next(
        r for r in world.walk("failovers/?limit=500") if instant(r["started_at"]) == begin
    )

    def samples(name):
        found = world.truth("net_device_usage_samples", device=devices[record[name]])
        quarter = timedelta(minutes=15)
        return [s for s in found if begin + quarter < instant(s["created_at"]) < end]

    primary, backup = samples("previous_wan_interface"), samples("current_wan_interface")
    assert {(s["bytes_in"], s["uptime"]) for s in primary} == {(0, None)}
    assert min(s["uptime"] for s in backup) > 0
    carried = sum(s["bytes_in"] + s["bytes_out"] for s in backup)
    assert 0.5 * episode["data_usage_bytes"] < carried <= episode["data_usage_bytes"]


@section("Observed: Fields")
def test_interfaces_together_carry_what_the_router_moved(world: Service):
    router = world.router_ids()[0]
    devices = world.records(f"net_devices/?router={router}&mode=wan")

    total = 0
    for device in devices:
        found = world.truth("net_device_usage_samples", device=device["id"])
        total += sum(s["bytes_in"] + s["bytes_out"] for s in found)

    stream = world.truth("router_stream_usage_samples", device=router)
    moved = sum(s["bytes_in"] + s["bytes_out"] for s in stream)
    assert total == pytest.approx(moved, rel=0.05)


@section("Limits")
def test_connection_alerts_come_after_60_seconds_offline_or_online(world: Service, alerts):
    spells = [s for s in over(world.truth("outages")) if s["kind"] == "offline"]

    minute = timedelta(minutes=1)
    for spell in spells:
        begin, end = instant(spell["started_at"]), instant(spell["ended_at"])
        known = end - begin >= minute
        assert has_alert(alerts, spell["router_id"], "connection_state", begin + minute) == known
        assert has_alert(alerts, spell["router_id"], "connection_state", end + minute) == known
    assert len(spells) > 20


@section("Observed: Fields")
def test_offline_router_sends_nothing_and_its_state_samples_say_so(world: Service):
    spell = max(
        (s for s in over(world.truth("outages")) if s["kind"] == "offline"),
        key=lambda s: instant(s["ended_at"]) - instant(s["started_at"]),
    )
    begin, end = instant(spell["started_at"]), instant(spell["ended_at"])
    router = str(spell["router_id"])
    modem = world.records(f"net_devices/?router={router}&mode=wan")[0]["id"]

    samples = world.truth("net_device_usage_samples", device=modem)
    states = world.truth("router_state_samples", device=router)

    inside = [s for s in samples if begin <= instant(s["created_at"]) < end]
    said = {s["state"] for s in states if begin <= instant(s["created_at"]) < end}
    assert inside == []
    assert said == {"offline"}
    assert end - begin > timedelta(minutes=30)


@section("Observed: Fields")
def test_router_is_offline_while_a_spell_lasts(make_service):
    service = make_service(routers=400, days=1)
    lasting = {
        s["router_id"]
        for s in service.truth("outages")
        if s["kind"] == "offline" and not s["ended_at"]
    }

    offline = {int(r["id"]) for r in service.records("routers/?state=offline&limit=500")}

    ready = {int(r["id"]) for r in service.records("routers/?state__in=online,offline&limit=500")}
    assert offline == lasting & ready
    assert offline


@section("Events: Alert types")
def test_battery_alerts_come_exactly_at_the_stated_thresholds(world: Service):
    rewound = start(days=14, routers=60)
    field = {
        "batt_health_alert": ("health", 62),
        "batt_sys_low_power_alert": ("rsoc", 20),
        "batt_sys_power_off_alert": ("rsoc", 7),
        "batt_over_temp_alert": ("temp", 50),
    }
    found = Counter()
    for alert in world.truth("alerts"):
        if alert["type"] not in field or instant(alert["created_at"]) < NOW - timedelta(days=4):
            continue
        name, threshold = field[alert["type"]]
        at, router = instant(alert["detected_at"]), last_segment(alert["router"])
        before, after = (
            reading(rewound, router, moment) for moment in (at - timedelta(minutes=1), at + MOMENT)
        )
        rises = name == "temp"
        assert after[name] == threshold
        assert before[name] < threshold if rises else before[name] > threshold
        found[alert["type"]] += 1
        if found.total() > 12:
            break
    assert found.total() > 5


@section("Events: Alert types")
def test_a_charge_out_of_bounds_is_in_the_report_that_raises_its_alert(make_service):
    service = make_service(routers=200, days=6)
    field = {"batt_over_current_alert": "milliamps", "batt_over_voltage_alert": "millivolts"}
    least = {"batt_over_current_alert": 3200, "batt_over_voltage_alert": 8500}
    found = [alert for alert in service.truth("alerts") if alert["type"] in field]

    for alert in found:
        at, router = instant(alert["detected_at"]), last_segment(alert["router"])
        assert reading(service, router, at + MOMENT)[field[alert["type"]]] >= least[alert["type"]]
    assert {alert["type"] for alert in found} == set(field)


def reading(service, router, moment):
    """Return what a battery reports at a time: the clock is moved there, the history stays."""
    simulation = service.app.state.simulation
    simulation.clock.started_at = round(moment.timestamp() * 1e6)
    return service.records(f"batteries/?router={router}")[0]


@section("Events: Alert types")
def test_every_kind_of_battery_alert_occurs(make_service):
    kinds = Counter(a["type"] for a in make_service(routers=200, days=6).truth("alerts"))

    assert {name for name in kinds if name.startswith("batt_")} == {
        "batt_health_alert", "batt_over_current_alert", "batt_over_temp_alert",
        "batt_over_voltage_alert", "batt_sys_low_power_alert", "batt_sys_power_off_alert",
    }  # fmt: skip
    assert 5 <= kinds.total() / 200 / 6 <= 15


@section("Resources: batteries")
def test_at_least_a_fifth_of_routers_have_a_battery_and_some_wear_out(world: Service):
    lives = world.truth("battery_life")

    worn = [life for life in lives if life["reached_62_at"]]
    assert len(lives) >= 60 / 5
    assert worn
    assert all(life["health_now_pct"] < 62 <= life["health_at_start_pct"] for life in worn)


@section("Resources: batteries")
def test_battery_status_and_current_agree(make_service):
    service = make_service(routers=300)
    routers = service.router_ids()

    records = []
    for _ in range(4):
        for first in range(0, 300, 100):
            some = ",".join(routers[first : first + 100])
            records += service.records(f"batteries/?limit=500&router__in={some}")
        service.advance(hours=6)

    assert {record["status"] for record in records} == {"Charging", "Discharging", "Idle"}
    for record in records:
        sign = {"Charging": 1, "Discharging": -1, "Idle": 0}[record["status"]]
        assert (record["milliamps"] > 0) - (record["milliamps"] < 0) == sign
        assert (record["time_remaining"] is not None) == (record["status"] == "Discharging")
        assert 7 <= record["rsoc"] <= 100


@section("Observed: Fields")
def test_fixes_follow_the_trips(world: Service):
    trips = [
        t for t in over(world.truth("trips")) if instant(t["started_at"]) > NOW - timedelta(days=5)
    ]
    outages = [o for o in world.truth("outages") if o["kind"] == "offline"]
    router = next(
        t["router_id"] for t in trips if t["router_id"] not in {o["router_id"] for o in outages}
    )
    fixes = world.truth("historical_locations", device=str(router))

    for trip in [t for t in trips if t["router_id"] == router]:
        begin, end = instant(trip["started_at"]), instant(trip["ended_at"])
        during = [f for f in fixes if begin <= instant(f["created_at"]) < end]
        minutes = (end - begin).total_seconds() / 60
        assert abs(len(during) - minutes) <= 1.5
        assert all(fix["mph"] > 0 for fix in during[1:-1])
        first, last = (
            (trip["from_latitude"], trip["from_longitude"]),
            (trip["to_latitude"], trip["to_longitude"]),
        )
        driven = miles([first, *((f["latitude"], f["longitude"]) for f in during), last])
        assert driven == pytest.approx(trip["distance_miles"], rel=0.08, abs=0.15)


def miles(points):
    """Return the length of a line of points in degrees."""
    total = 0.0
    for (lat_a, lon_a), (lat_b, lon_b) in pairwise(points):
        east = (lon_b - lon_a) * cos(radians((lat_a + lat_b) / 2))
        total += hypot(lat_b - lat_a, east) * 69.0
    return total


@section("Observed: Fields")
def test_parked_vehicle_sends_fewer_fixes_and_stands_still(world: Service):
    router = world.router_ids()[1]
    trips = [
        (instant(t["started_at"]), instant(t["ended_at"] or NOW.isoformat()))
        for t in world.truth("trips")
        if str(t["router_id"]) == router
    ]
    fixes = world.truth("historical_locations", device=router)

    parked = [f for f in fixes if not any(a <= instant(f["created_at"]) < b for a, b in trips)]

    gaps = [instant(b["created_at"]) - instant(a["created_at"]) for a, b in pairwise(parked)]
    assert {fix["mph"] for fix in parked} == {0.0}
    assert min(gaps) > timedelta(minutes=14)


@section("Observed: Fields")
def test_location_of_a_vehicle_is_its_last_fix(world: Service):
    for location in world.records("locations/?method=gnss&limit=4"):
        last = world.truth("historical_locations", device=last_segment(location["router"]))[-1]
        assert instant(last["created_at"]) == instant(location["updated_at"])
        assert (last["latitude"], last["longitude"]) == (
            location["latitude"],
            location["longitude"],
        )


@section("Observed: Fields")
def test_location_of_an_offline_router_is_from_before_it_went_offline():
    rewound = start(days=6, routers=60)
    spells = [s for s in over(rewound.truth("outages")) if s["kind"] == "offline"]
    found = 0

    for spell in spells[-40:]:
        begin, end = instant(spell["started_at"]), instant(spell["ended_at"])
        rewound.app.state.simulation.clock.started_at = round(
            (begin + (end - begin) / 2).timestamp() * 1e6
        )
        for location in rewound.records(f"locations/?router={spell['router_id']}"):
            assert instant(location["updated_at"]) <= begin
            found += location["method"] == "gnss"
    assert found > 5


@section("Observed: Ordering of time series")
def test_metrics_show_which_devices_have_new_samples(world: Service):
    for metric in world.records("net_device_metrics/?limit=8&id__gt=0"):
        newest = world.truth("net_device_usage_samples", device=metric["id"])[-1]
        assert instant(metric["update_ts"]) == instant(newest["created_at"])
        assert metric["bytes_in"] == newest["bytes_in"]


@section("Observed: Fields")
def test_signal_depends_on_location(world: Service):
    router = world.router_ids()[1]
    fixes = world.truth("historical_locations", device=router)

    at_depot = [f["rsrp"] for f in fixes if f["mph"] == 0][:200]
    moving = [f["rsrp"] for f in fixes if f["mph"] > 0]
    assert max(moving) - min(moving) > 2 * (max(at_depot[:20]) - min(at_depot[:20]))


@section("Observed: Fields")
def test_traffic_has_a_daily_rhythm(world: Service):
    stream = world.truth("router_stream_usage_samples", device=world.router_ids()[0])

    by_hour = defaultdict(int)
    for sample in stream:
        by_hour[instant(sample["created_at"]).hour] += sample["bytes_in"]
    assert max(by_hour.values()) > 3 * min(by_hour.values())


@section("Observed: Fields")
def test_every_router_has_two_modems_a_wired_wan_and_a_lan(world: Service):
    devices = defaultdict(Counter)
    for device in world.walk("net_devices/?limit=500&router__isnull=false"):
        devices[last_segment(device["router"])][device["type"], device["mode"]] += 1

    points = {r["id"] for r in world.records("routers/?device_type=access_point&limit=500")}
    wired = {("ethernet", "wan"): 1, ("ethernet", "lan"): 1}
    assert {r for r, found in devices.items() if found == wired} == points
    assert all(devices[r] == {**wired, ("mdm", "wan"): 2} for r in devices if r not in points)


@section("Resources: activity_logs")
def test_change_of_settings_shows_in_log_alert_and_version(world: Service, alerts):
    changed = Counter()
    for log in world.truth("activity_logs"):
        what = (log["action"]["type_name"], log["object"]["type_name"])
        if what == ("update", "router") and "setting" in log["action"].get("after", {}):
            changed[log["object"]["id"]] += 1

    versions = {
        last_segment(m["router"]): m["version_number"]
        for m in world.walk("configuration_managers/?limit=500")
    }

    assert {router: n - 1 for router, n in versions.items() if n > 1} == changed
    assert {r for r, kind in alerts if kind == "config_change"} == set(changed)


@section("Limits")
def test_account_is_locked_after_six_failed_logins(make_service):
    logs = make_service(routers=600, days=10).truth("activity_logs")

    locked = [log for log in logs if log["action"]["type_name"] == "account locked"]
    failed = defaultdict(list)
    for log in logs:
        if log["action"]["type_name"] == "login failed":
            failed[log["actor"]["id"]].append(instant(log["action"]["timestamp"]))
    for log in locked:
        at = instant(log["action"]["timestamp"])
        tries = [
            t for t in failed[log["actor"]["id"]] if at - timedelta(minutes=2) < t <= at + MOMENT
        ]
        assert len(tries) >= 6
    assert locked
