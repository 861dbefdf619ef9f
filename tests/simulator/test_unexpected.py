"""Unusual requests, one kind per test. test_fuzz.py draws others."""

import asyncio
import json
from urllib.parse import quote

import pytest

from fleetsim.definition import SeriesRead
from fleetsim.resources import RESOURCES
from tests.simulator.sections import section
from tests.support.asgi import Request, ask
from tests.support.service import (
    BEARER,
    HOST,
    JSON_API,
    Service,
    complaint,
    is_validation,
    keys,
    shared,
)

HEADERS = tuple((name.lower().encode(), value.encode()) for name, value in keys().items())
BY_ROUTER = ("alerts", "router_alerts", "historical_locations", "router_logs",
             "router_state_samples", "router_stream_usage_samples", "batteries")  # fmt: skip
BY_INTERFACE = ("net_device_signal_samples", "net_device_usage_samples")
DEEP = json.loads("[" * 200 + "]" * 200)


def sent(service: Service, method: str, target: str, headers=HEADERS, body: bytes = b""):
    """Return the response to a request that HTTP clients would refuse to send."""
    return asyncio.run(ask(service.app, Request(method, target.encode(), headers, body)))


@section("Observed: Required filters")
@pytest.mark.parametrize("name", [*BY_ROUTER, *BY_INTERFACE])
def test_nonexistent_device_has_no_records(service: Service, name):
    devices, field = (
        ("net_devices", "net_device") if name in BY_INTERFACE else ("routers", "router")
    )
    last = max(int(r["id"]) for r in service.walk(f"{devices}/?id__gt=0&limit=500&fields=id"))

    for number in range(last + 1, last + 13):
        assert service.records(f"{name}/?{field}={number}") == []
    if name not in ("historical_locations", "router_logs"):
        several = ",".join(str(number) for number in range(last + 1, last + 100))
        assert service.records(f"{name}/?{field}__in={several}") == []


@section("Resources: Conventions")
@pytest.mark.parametrize(
    ("name", "field"), [("routers", "mac"), ("users", "email"), ("net_devices", "name")]
)
def test_filter_by_text_matches_whole_values_only(service: Service, name, field):
    longest = max((r[field] for r in service.records(f"{name}/?limit=500")), key=len)

    assert service.records(f"{name}/?{field}__in={quote(longest)}")
    for end in ("x", "%00", "%20"):
        assert service.records(f"{name}/?{field}={quote(longest)}{end}") == []
        assert service.records(f"{name}/?{field}__in={quote(longest)}{end},nobody") == []


@section("Observed: Ordering and filters")
@pytest.mark.parametrize("field", ["account_id", "group_id", "router_id"])
def test_failovers_are_filtered_by_ranges_of_ids(service: Service, field):
    everything = list(service.walk("failovers/?limit=500"))
    bound = sorted(r[field] for r in everything if r[field] is not None)[len(everything) // 2]
    wanted = {
        "gt": lambda value: value > bound, "gte": lambda value: value >= bound,
        "lt": lambda value: value < bound, "lte": lambda value: value <= bound,
    }  # fmt: skip

    for operator, holds in wanted.items():
        found = list(service.walk(f"failovers/?{field}__{operator}={bound}&limit=500"))
        assert found == [r for r in everything if r[field] is not None and holds(r[field])]


@section("Errors")
@pytest.mark.parametrize(
    ("method", "path", "member"),
    [
        ("PUT", "routers/1000003/", "description"), ("POST", "accounts/", "name"),
        ("PUT", "configuration_managers/{manager}/", "configuration"),
        ("PATCH", "configuration_managers/{manager}/", "configuration"),
        ("POST", "groups/", "configuration"), ("POST", "alert_rules/", "settings"),
        ("POST", "alert_rules/", "filter_criteria"), ("POST", "speed_test/", "config"),
    ],
)  # fmt: skip
def test_body_nested_too_deeply_is_refused_and_leaves_every_list_readable(
    fresh: Service, method, path, member
):
    manager = fresh.records("configuration_managers/?limit=1")[0]["id"]
    name = path.partition("/")[0]
    for value in ({"x": DEEP}, [{"x": DEEP}, []], DEEP):
        assert is_validation(fresh.write(method, path.format(manager=manager), {member: value}))

    if RESOURCES[name].is_listed:
        assert fresh.get(f"{name}/?limit=500").status_code == 200


@section("Errors")
@pytest.mark.parametrize("value", [DEEP, [], {"a": 1}, "yes"])
def test_v3_user_takes_only_values_that_can_be_listed(fresh: Service, value):
    identity = fresh.records("users/?limit=1")[0]["id"]
    headers = {**BEARER, "Content-Type": JSON_API}
    document = {"data": {"attributes": {"is_active": value}}}

    answer = fresh.ask("PATCH", f"/api/v3/users/{identity}", headers=headers, json=document)

    assert answer.status_code == 400
    assert fresh.ask("GET", "/api/v3/users", headers=BEARER).status_code == 200


@section("Errors")
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("alert_rules/", {"filter_criteria": {"alert_type__in": [[]]}}),
        ("alert_rules/", {"filter_criteria": {"alert_type__in": [{}]}}),
        ("alert_rules/", {"filter_criteria": {"alert_type__in": None}}),
        ("alert_rules/", {"filter_criteria": {"external_id__in": [[]]}}),
        ("alert_rules/", {"http_destinations": [[]]}),
        ("alert_rules/", {"associated_accounts": [{}]}),
        *(
            ("alert_push_destinations/", {"endpoint": {"url": url}})
            for url in ("http://[", "http://xn--a/", "http://", "//x/", "http://a:b/", "ftp://a/")
        ),
    ],
)
def test_member_of_a_wrong_type_or_an_invalid_address_is_refused(fresh: Service, path, body):
    good = {
        "alert_rules/": {"schedule": None, "filter_criteria": {}, "http_destinations": []},
        "alert_push_destinations/": {"name": "n", "authentication": {"secret": "s"}},
    }

    assert is_validation(fresh.write("POST", path, {**good[path], **body}))


@section("Errors")
@pytest.mark.parametrize("method", ["OPTIONS", "TRACE", "PURGE", "DELETE"])
@pytest.mark.parametrize(
    "target", ["/api/v2/accounts/", "/api/v2/alerts/", "/sim/state", "/sim/truth/alerts"]
)
def test_unsupported_method_is_refused_in_json(service: Service, method, target):
    answer = sent(service, method, target)

    assert answer.status == 405
    assert answer.head["content-type"] == "application/json"
    assert answer.json()["exception"] == {"type": "error", "message": "method not allowed"}
    assert answer.json()["errors"] == [{"path": target}, {"method": method}]


@section("Errors")
@pytest.mark.parametrize("target", ["*", "/", "/%0a", "/api", "/api/v2/routers/%0a/", "/sim/"])
@pytest.mark.parametrize("method", ["GET", "OPTIONS", "TRACE"])
def test_unknown_path_is_refused_in_json(service: Service, method, target):
    answer = sent(service, method, target)

    assert answer.status in (404, 405)
    assert answer.json()["exception"]["type"] == "error"


@section("Endpoints: General conventions")
@pytest.mark.parametrize(
    ("host", "origin"),
    [(None, "http://127.0.0.1:8700"), (b"", "http://127.0.0.1:8700"), (b"[", "http://[")],
)
def test_next_names_the_servers_port_if_no_host_is_sent(service: Service, host, origin):
    headers = HEADERS if host is None else (*HEADERS, (b"host", host))

    page = sent(service, "GET", "/api/v2/routers/?limit=2", headers).json()

    assert page["meta"]["next"].startswith(f"{origin}/api/v2/routers/?")
    assert page["data"][0]["resource_url"].startswith(f"{origin}/api/v2/routers/")


@section("Endpoints: General conventions")
def test_percent_encoded_path_is_one_key_and_no_query(service: Service):
    assert sent(service, "GET", "/api/v2/routers/%3Flimit=1/").status == 404
    assert sent(service, "GET", "/api/v2/routers/1000003%2F/").status == 404
    assert sent(service, "GET", "/api/v2/%72outers/").status == 200


@section("Observed: v3")
def test_user_deleted_while_a_client_pages_hides_no_other_user(fresh: Service):
    every = [user["id"] for user in fresh.truth("users_v3")]
    first = fresh.ask("GET", "/api/v3/users?page[size]=4", headers=BEARER).json()

    fresh.write("DELETE", f"users/{every[1]}/")
    seen, link = [user["id"] for user in first["data"]], first["links"].get("next")
    while link:
        page = fresh.ask("GET", link.removeprefix(HOST), headers=BEARER).json()
        seen += [user["id"] for user in page["data"]]
        link = page["links"].get("next")

    assert seen == every


@section("Simulator: truth")
def test_truth_lists_deleted_records(fresh: Service):
    account = fresh.write("POST", "accounts/", {"account": "10157", "name": "x"}).json()
    body = {"account": account["id"], "name": "g", "product": "46", "target_firmware": "9003"}
    group = fresh.write("POST", "groups/", body).json()
    router = fresh.records("routers/?limit=1")[0]

    for path in (f"accounts/{account['id']}/", f"routers/{router['id']}/"):
        assert fresh.write("DELETE", path).status_code == 204

    gone = [(one["resource"], one["id"], one["record"]) for one in fresh.truth("deletions")]
    assert gone == [
        ("groups", group["id"], group),
        ("accounts", account["id"], account),
        ("routers", router["id"], router),
    ]
    assert {one["deleted_at"] for one in fresh.truth("deletions")} == {fresh.now().isoformat()}


@section("Simulator: truth")
@pytest.mark.parametrize("name", RESOURCES)
def test_truth_of_a_resource_is_whole_or_not_found(name):
    small = shared(routers=5, days=1)

    for query in ("", "?until=0001-01-01", "?device=1000353", "?device=99999999999999999999"):
        answer = small.ask("GET", f"/sim/truth/{name}{query}")
        assert answer.status_code == (200 if RESOURCES[name].is_listed else 404)
        for line in answer.text.splitlines():
            json.loads(line)


@section("Simulator: truth")
def test_truth_does_not_change_while_a_client_deletes(fresh: Service):
    simulation = fresh.app.state.simulation
    view = simulation.truth(HOST)
    block = RESOURCES["alert_rules"].series(view, SeriesRead())

    for rule in fresh.records("alert_rules/"):
        fresh.write("DELETE", f"alert_rules/{rule['alert_config_id']}/")

    shown = RESOURCES["alert_rules"].by_name["schedule"].read(view, next(iter(block)))
    assert shown == [None]
    assert simulation.ledger.writes_to("alert_rules").created == {}


@section("Simulator: faults")
@pytest.mark.parametrize("scenario", ["nonsense", [], {}, [[]], 5, True, ""])
def test_unknown_scenario_is_refused(fresh: Service, scenario):
    assert is_validation(fresh.ask("PUT", "/sim/faults", json={"scenario": scenario}))
    assert fresh.state()["scenario"] is None


@section("Simulator: clock")
@pytest.mark.parametrize("seconds", [1e308, 10**30, 3661 * 86400, -1, "1", None, [], True])
def test_clock_refuses_an_impossible_step(fresh: Service, seconds):
    before = fresh.now()

    assert is_validation(fresh.ask("POST", "/sim/clock", json={"advance_seconds": seconds}))
    assert fresh.now() == before


@section("Authentication: v2")
def test_sub_account_cannot_use_a_destination_or_speed_test_of_another(fresh: Service):
    body = {"name": "n", "endpoint": {"url": "http://r/"}, "authentication": {"secret": "s"}}
    key = fresh.write("POST", "alert_push_destinations/", body).json()["destination_config_id"]
    root = fresh.records("routers/?account=10157&limit=1")[0]["id"]
    test = fresh.write("POST", "speed_test/", {"router": root}).json()["id"]
    rule = {"schedule": None, "filter_criteria": {}, "http_destinations": [key]}

    assert is_validation(fresh.write("POST", "alert_rules/", rule, role="subaccount"))
    assert complaint(fresh.get(f"speed_test/{test}/", role="subaccount"))[0] == 404


@section("Endpoints: General conventions")
def test_lists_are_empty_once_every_user_and_router_is_deleted(make_service):
    service = make_service(routers=2, days=1)
    for name in ("users", "routers"):
        for record in service.records(f"{name}/?limit=500"):
            service.write("DELETE", f"{name}/{record['id']}/")

    for name in ("users", "routers", "locations", "router_lans"):
        assert service.records(f"{name}/") == []
    assert service.ask("GET", "/api/v3/users", headers=BEARER).json()["data"] == []
    assert is_validation(service.write("DELETE", "accounts/10157/"))


@section("Endpoints: General conventions")
@pytest.mark.parametrize("fields", ["", "%20", ",", "+,+"])
def test_fields_without_a_name_give_whole_records(service: Service, fields):
    assert service.page(f"products/46/?fields={fields}") == service.page("products/46/")
    assert service.records(f"products/?fields={fields}") == service.records("products/")
