from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetsim import timeuuids
from tests.simulator.sections import section
from tests.support.service import (
    NOW,
    Service,
    embedded,
    instant,
    is_validation,
    last_segment,
    shared,
    smallest_uuid,
)

SETTLED = NOW - timedelta(minutes=1)
PER_DEVICE = {
    "historical_locations": "router",
    "net_device_signal_samples": "net_device",
    "net_device_usage_samples": "net_device",
    "router_logs": "router",
    "router_state_samples": "router",
    "router_stream_usage_samples": "router",
}


def key_of(record):
    return record.get("created_at_timeuuid") or record["action"]["id"]


@pytest.fixture(scope="module")
def week() -> Service:
    return shared(days=7)


def devices_of(service: Service, name: str) -> list[str]:
    """Return two vehicles' ids, as routers or as their first modems."""
    routers = service.router_ids()[1:4:2]
    if PER_DEVICE[name] == "router":
        return routers
    return [service.records(f"net_devices/?router={r}&type=mdm")[0]["id"] for r in routers]


@section("Endpoints: alerts")
def test_alerts_walked_newest_first_are_the_settled_truth(service: Service):
    keys = [key_of(record) for record in service.walk("alerts/?limit=500")]

    true = [key_of(record) for record in service.truth("alerts")]
    settled = [key for key in true if embedded(key) < SETTLED]
    walked = set(keys)
    times = [embedded(key) for key in keys]
    assert keys == [key for key in reversed(true) if key in walked]
    assert times == sorted(times, reverse=True)
    assert set(settled) <= walked
    assert len(settled) > 10_000


@section("Endpoints: General conventions")
def test_alert_pages_of_any_size_hold_the_same_records(service: Service):
    window = f"created_at__gt={(NOW - timedelta(hours=2)).isoformat().replace('+', '%2b')}"
    alerts = service.records(f"alerts/?{window}&limit=500")
    assert 20 < len(alerts) < 100

    for limit in (1, 7, len(alerts) - 1, len(alerts), len(alerts) + 1):
        assert list(service.walk(f"alerts/?{window}&limit={limit}")) == alerts


@section("Endpoints: General conventions")
def test_next_of_alerts_and_activity_logs_moves_their_own_cursors(service: Service):
    alerts = service.page("alerts/?limit=2&type=failover_event")
    logs = service.page("activity_logs/?limit=2")

    last_alert, last_log = key_of(alerts["data"][-1]), key_of(logs["data"][-1])
    assert alerts["meta"]["next"].endswith(
        f"/alerts/?limit=2&type=failover_event&created_at_timeuuid__lt={last_alert}"
    )
    assert logs["meta"]["next"].endswith(f"/activity_logs/?limit=2&action__id__lt={last_log}")


@section("Resources: alerts")
def test_created_at_equals_the_time_inside_the_uuid(service: Service):
    for alert in service.records("alerts/?limit=500"):
        assert instant(alert["created_at"]) == embedded(alert["created_at_timeuuid"])
    for log in service.records("activity_logs/?limit=500"):
        assert instant(log["action"]["timestamp"]) == embedded(log["action"]["id"])


@section("Resources: alerts")
def test_smallest_uuids_bound_a_half_open_window(service: Service):
    alerts = service.records("alerts/?limit=400")
    first, last = instant(alerts[300]["created_at"]), instant(alerts[100]["created_at"])
    window = (
        f"created_at_timeuuid__gte={smallest_uuid(first)}"
        f"&created_at_timeuuid__lt={smallest_uuid(last)}"
    )

    found = service.records(f"alerts/?{window}&limit=500")

    assert found == alerts[101:301]


@section("Resources: alerts")
@pytest.mark.parametrize(
    ("op", "expected"),
    [
        ("", slice(5, 6)),
        ("__gt", slice(0, 5)),
        ("__gte", slice(0, 6)),
        ("__lt", slice(6, 9)),
        ("__lte", slice(5, 8)),
    ],
)
def test_alert_uuid_operators(service: Service, op, expected):
    alerts = service.records("alerts/?limit=9")

    limit = expected.stop - expected.start
    found = service.records(f"alerts/?created_at_timeuuid{op}={key_of(alerts[5])}&limit={limit}")

    assert found == alerts[expected]


@section("Resources: alerts")
def test_uuids_can_be_listed_in_a_filter(service: Service):
    alerts = service.records("alerts/?limit=30")
    wanted = [alerts[29], alerts[3]]

    found = service.records(f"alerts/?created_at_timeuuid__in={','.join(map(key_of, wanted))}")

    assert found == [alerts[3], alerts[29]]


@section("Resources: alerts")
def test_exactly_one_of_router_and_account_has_a_value(service: Service):
    about_routers = service.records("alerts/?router__isnull=false&limit=500")
    about_accounts = service.records("alerts/?account__isnull=false&limit=500")

    assert {a["account"] for a in about_routers} == {None}
    assert {a["router"] for a in about_accounts} == {None}
    assert about_accounts == service.records("alerts/?router__isnull=true&limit=500")
    assert about_routers
    assert about_accounts


@section("Resources: alerts")
def test_info_of_login_and_wan_alerts_has_the_stated_shape(service: Service):
    login = service.records("alerts/?type=login_success&limit=1")[0]["info"]
    wan = service.records("alerts/?type=ethernet_wan_disconnected&limit=1")[0]["info"]

    assert set(login) == {"ip", "time", "type", "user"}
    assert len(login["time"]) == 2
    assert set(wan) == {"alert_type", "history", "info", "status", "time", "type"}
    assert set(wan["info"]) == {"mac", "port", "raw_port", "reason", "type", "uid"}
    assert isinstance(wan["history"], list)


@section("Resources: alerts")
def test_wan_alerts_name_the_interface_they_are_about(service: Service):
    devices = {record["mac"]: record for record in service.truth("net_devices")}
    alerts = [a for a in service.truth("alerts") if a["type"].endswith("_wan_disconnected")]

    info = [(alert["type"], alert["info"]["info"]) for alert in alerts]

    assert {(kind, about["type"], about["raw_port"] == "wan") for kind, about in info} == {
        ("ethernet_wan_disconnected", "ethernet", True),
        ("modem_wan_disconnected", "mdm", False),
    }
    known = [about for _, about in info if about["mac"] in devices]
    assert known
    assert {devices[about["mac"]]["type"] == about["type"] for about in known} == {True}


@section("Observed: Ordering of time series")
@pytest.mark.parametrize("order", ["created_at_timeuuid", "-created_at_timeuuid", "type"])
@pytest.mark.parametrize("name", ["alerts", "activity_logs"])
def test_order_of_alerts_and_activity_logs_cannot_be_chosen(service: Service, name, order):
    answer = service.get(f"{name}/?order_by={order}")

    assert answer.status_code == 409
    assert is_validation(answer)


@section("Observed: Ordering of time series")
@pytest.mark.parametrize("name", sorted(PER_DEVICE))
def test_series_of_devices_walked_oldest_first_are_the_truth(week: Service, name):
    ids = devices_of(week, name)
    queries = [f"{name}/?{PER_DEVICE[name]}={one}&limit=133" for one in ids]
    order = "" if name == "historical_locations" else "&order_by=created_at_timeuuid"

    walked = [[key_of(r) for r in week.walk(query + order)] for query in queries]

    for one, keys in zip(ids, walked, strict=True):
        records = week.truth(name, device=one)
        true = [key_of(r) for r in records]
        assert {r["_device"] for r in records} == {one}
        settled = [key for key in true if embedded(key) < SETTLED]
        assert keys[: len(settled)] == settled
        assert set(keys) <= set(true)
        assert len(keys) > 133


@section("Observed: Ordering of time series")
@pytest.mark.parametrize(
    "name", [n for n in sorted(PER_DEVICE) if n not in ("historical_locations", "router_logs")]
)
def test_series_of_several_devices_are_one_series_in_either_order(week: Service, name):
    query = f"{name}/?{PER_DEVICE[name]}__in={','.join(devices_of(week, name))}&limit=300"

    newest_first = list(week.walk(query))

    assert newest_first == list(week.walk(f"{query}&order_by=created_at_timeuuid"))[::-1]
    assert newest_first == list(week.walk(f"{query}&order_by=-created_at_timeuuid"))
    assert len(newest_first) > 300


@section("Observed: Ordering of time series")
def test_historical_locations_take_gt_exclusive_and_lte_inclusive(service: Service):
    router = service.router_ids()[1]
    fixes = service.records(f"historical_locations/?router={router}&limit=50")
    first, last = fixes[10]["created_at"], fixes[20]["created_at"]

    found = service.records(
        f"historical_locations/?router={router}&created_at__gt={first}&created_at__lte={last}"
    )

    assert found == fixes[11:21]


@section("Observed: Ordering of time series")
def test_router_alerts_are_the_alerts_of_the_router(service: Service):
    router = service.router_ids()[1]

    alerts = service.records(f"alerts/?router={router}&limit=200")

    router_alerts = service.records(f"router_alerts/?router={router}&limit=200")
    assert [key_of(a) for a in alerts] == [key_of(a) for a in router_alerts]
    assert {last_segment(a["router"]) for a in router_alerts} == {router}


@section("Observed: Rates and failures")
def test_record_appears_up_to_a_minute_after_it_was_created(make_service):
    service = make_service(routers=300, days=1)
    before = {key_of(r) for r in service.walk("alerts/?limit=500")}
    held_back = {key_of(r) for r in service.truth("alerts")} - before

    service.advance(minutes=1)

    assert held_back
    assert all(embedded(key) > NOW - timedelta(minutes=1) for key in held_back)
    assert held_back <= {key_of(r) for r in service.walk("alerts/?limit=500")}


@section("Limits")
def test_activity_logs_are_kept_for_30_days_of_the_simulated_clock(make_service):
    service = make_service(days=31, routers=20)
    first = [embedded(key_of(r)) for r in service.walk("activity_logs/?limit=500")]

    service.advance(days=5)

    later = [embedded(key_of(r)) for r in service.walk("activity_logs/?limit=500")]
    everything = [embedded(key_of(r)) for r in service.truth("activity_logs")]
    assert min(first) >= NOW - timedelta(days=30)
    assert min(later) >= NOW - timedelta(days=25)
    assert set(first) & set(later)
    assert min(everything) < min(first) < min(later)


@section("Endpoints: activity_logs")
def test_activities_about_people_are_for_the_root_administrator(service: Service):
    seen = {
        role: {
            log["action"]["type_name"]
            for log in service.records("activity_logs/?limit=300", role=role)
        }
        for role in ("admin", "full", "readonly", "subaccount")
    }

    assert {"login", "logout", "login failed"} <= seen.pop("admin")
    for types in seen.values():
        assert types
        assert not types & {"login", "logout", "login failed", "account locked"}


@section("Resources: activity_logs")
def test_activity_logs_can_be_filtered_by_their_members(service: Service):
    log = service.records("activity_logs/?limit=8")[7]

    for name in ("action__type", "actor__id", "actor__type", "object__id", "object__type"):
        part, member = name.split("__")
        value = log[part][member]
        found = service.records(f"activity_logs/?{name}={value}&limit=100")
        assert {one[part][member] for one in found} == {value}
        assert log in found


@section("Resources: activity_logs")
def test_created_at_filters_mean_the_same_as_action_timestamp(service: Service):
    logs = service.records("activity_logs/?limit=50")
    since = logs[30]["action"]["timestamp"]

    found = [
        service.records(f"activity_logs/?{name}__gt={since}&limit=500")
        for name in ("created_at", "action__timestamp")
    ]

    assert found == [logs[:30], logs[:30]]
    assert service.records(f"activity_logs/?created_at__exact={since}") == [logs[30]]


@section("Resources: activity_logs")
def test_activity_log_has_the_stated_shape(service: Service):
    of_routers = 0
    for log in service.records("activity_logs/?limit=300"):
        assert set(log) == {"action", "actor", "object"}
        assert {"id", "type", "type_name"} <= set(log["object"])
        if "diff" not in log["action"]:
            assert set(log["action"]) == {"id", "timestamp", "type", "type_name", "before", "after"}
            assert set(log["actor"]) == {"id", "type", "type_name", "email"}
            continue
        of_routers += 1
        assert set(log["action"]) == {"id", "timestamp", "type", "type_name", "diff"}
        updates, removals = log["action"]["diff"]
        assert (type(updates), type(removals)) == (dict, list)
        actor = log["actor"]
        assert set(actor) == {"id", "type", "mac", "name"}
        router = service.page(f"routers/{actor['id']}/")
        assert (actor["id"], actor["mac"]) == (log["object"]["id"], router["mac"])
    assert of_routers


@section("Resources: activity_logs")
def test_activity_logs_of_one_account_can_be_requested(service: Service):
    accounts = [record["id"] for record in service.records("accounts/")]

    counts = [
        len(list(service.walk(f"activity_logs/?account={one}&limit=500"))) for one in accounts
    ]

    assert sum(counts) == len(list(service.walk("activity_logs/?limit=500")))
    assert min(counts) > 0


@section("Limits")
def test_actual_configuration_is_empty_90_days_after_its_report(make_service):
    service = make_service(days=115, routers=40)
    changed_at = {}
    for log in service.truth("activity_logs"):
        what = (log["action"]["type_name"], log["object"]["type_name"])
        if what == ("update", "router") and "setting" in log["action"].get("after", {}):
            changed_at[log["object"]["id"]] = instant(log["action"]["timestamp"])

    managers = {
        last_segment(m["router"]): m for m in service.walk("configuration_managers/?limit=500")
    }

    forgotten = {router for router, manager in managers.items() if manager["actual"] == [{}, []]}
    limit = NOW - timedelta(days=90)
    assert forgotten == {router for router, at in changed_at.items() if at < limit}
    assert forgotten


@section("Resources: alerts")
@given(
    pairs=st.lists(
        st.tuples(st.integers(0, 2**40), st.binary(min_size=8, max_size=8)), min_size=2, max_size=6
    )
)
def test_uuids_are_ordered_by_time_and_then_by_signed_bytes(pairs):
    texts = timeuuids.to_text(
        np.array([at for at, _ in pairs]),
        np.array([int.from_bytes(tail, "big") for _, tail in pairs], dtype=np.uint64),
    )

    ordered = sorted(texts, key=timeuuids.parse)

    def cassandra(text):
        tail = bytes.fromhex(text.replace("-", ""))[8:]
        return embedded(text), [byte - 256 if byte > 127 else byte for byte in tail]

    assert ordered == sorted(texts, key=cassandra)
