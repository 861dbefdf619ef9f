"""A conversation with the simulator: requests of every kind in one order, and what it answers.

`conversation.json` has the responses that were read and found right by the contract; a test holds
the simulator to them. `python -m tools.recorded.conversation` writes them anew after a change
that is meant. Each request is small, so that a difference shows what changed.
"""

import json
import sys
from pathlib import Path
from typing import Any

from tests.support.service import BEARER, JSON_API, Service, start

CONVERSATION = Path(__file__).parents[2] / "tests/simulator/conversation.json"
V3 = {**BEARER, "Content-Type": JSON_API}
MANAGER = "configuration_managers/1500038/"
ROUTER, MODEM = "1000012", "5000075"
PERSON = {"email": "new@person.example", "first_name": "New", "last_name": "Person"}
DESTINATION = {
    "name": "n",
    "endpoint": {"url": "http://receiver.test/a"},
    "authentication": {"secret": "s3cret"},
}
RULE = {
    "schedule": "None",
    "filter_criteria": {"alert_type__in": ["login_success"]},
    "http_destinations": [],
}
POOLED = {"alert_type__in": ["pdp_router_overage"]}

READS = (
    "accounts/?limit=2&order_by=-name", "accounts/?limit=1&offset=2&fields=name,id",
    "accounts/?account=10157&fields=id", "accounts/10204/", "accounts/7/", "accounts/x/",
    "users/?limit=1&expand=account", "users/?limit=1&expand=nonsense", "users/?order_by=nonsense",
    "groups/?limit=2&id__gt=20003&fields=id,name",
    "groups/?limit=2&id__gt=0&order_by=-id&fields=id",
    "groups/?name__in=a,b", "groups/?limit=x", "groups/?offset=-1", "groups/?offset=x",
    "groups/?nonsense=1", "groups/?id__nonsense=1", "groups/?id=x", "groups/?id__in=1,x",
    "groups/?id__in=" + ",".join(map(str, range(101))) + "&fields=id",
    "routers/?limit=2&fields=id,state,group&state=online&order_by=-id",
    "routers/?limit=1&fields=id,group&group__isnull=true", "routers/?group__isnull=maybe",
    f"routers/?id={ROUTER}&fields=id,mac,name,product,full_product_name,device_type",
    "routers/?limit=2&fields=id,updated_at&updated_at__gt=2026-06-15T00:00:00",
    "routers/?updated_at__gt=yesterday", "routers/?limit=1&fields=id,account&expand=account",
    f"net_devices/?router={ROUTER}&fields=id,name,type,mode,is_asset,carrier,model&limit=9",
    "net_devices/?limit=2&router__isnull=true&fields=id,router&id__gt=0",
    "net_devices/?is_asset=maybe", "net_devices/?is_asset=TRUE&limit=1&fields=id",
    f"net_device_metrics/?net_device__in={MODEM}&fields=net_device,update_ts",
    "alerts/?limit=2&fields=created_at,type,router,account",
    "alerts/?limit=2&account__isnull=false&fields=type,account",
    "alerts/?limit=2&type__in=login_success,config_change&fields=type,friendly_info",
    "alerts/?created_at_timeuuid__gt=x", "alerts/?limit=1&order_by=type",
    f"alerts/?limit=1&router={ROUTER}&expand=router&fields=router,type",
    f"router_alerts/?limit=2&router={ROUTER}&order_by=created_at_timeuuid&fields=created_at,type",
    "activity_logs/?limit=2", "activity_logs/?limit=1&action__type_name=login",
    "failovers/?limit=2&ended_at__isnull=true", "failovers/?limit=1&order_by=-started_at",
    "failovers/?limit=2&started_at__gte=2026-06-15T00:00:00Z&fields=router_id,started_at",
    f"configuration_managers/?router={ROUTER}&fields=id,version_number,suspended",
    "batteries/", "router_state_samples/", "net_device_signal_samples/?net_device=x",
    f"router_state_samples/?router={ROUTER}&limit=2&fields=created_at,state",
    f"router_logs/?router={ROUTER}&limit=2&fields=created_at,level,message",
    f"net_device_usage_samples/?net_device={MODEM}&limit=1&fields=created_at,period,net_device",
    "products/?limit=2", "firmwares/?limit=2&fields=id,version", "device_apps/?limit=1",
    "alert_rules/", "alert_push_destinations/", "overlay_network_bindings/", "nonsense/",
    "reboot_activity/", "speed_test/7/", "routers", "routers//",
)  # fmt: skip
WRITES: tuple[tuple[str, str, Any], ...] = (
    ("POST", "accounts/", {"account": "10157", "name": "Depot"}),
    ("POST", "accounts/", {"account": 1.5, "name": "Depot"}),
    ("POST", "accounts/", {"account": True, "name": "Depot"}),
    ("POST", "accounts/", {"name": "Depot"}),
    ("POST", "accounts/", {"account": "10157", "name": "  "}),
    ("POST", "accounts/", []),
    ("PUT", "accounts/10418/", {"name": "Shops"}),
    ("PUT", "accounts/10418/", {"id": 7}),
    ("PUT", "accounts/10418/", {"name": 7}),
    ("DELETE", "accounts/10562/", None),
    ("POST", "users/", PERSON),
    ("POST", "users/", {**PERSON, "account": "10204", "username": "nn"}),
    ("POST", "users/", {"email": "a@b.example"}),
    ("PUT", "users/30024/", {"first_name": "X"}),
    ("DELETE", "users/30024/", None),
    ("DELETE", "users/30024/", None),
    ("POST", "groups/", {"name": "G", "product": "46", "target_firmware": "9003"}),
    ("POST", "groups/", {"name": "G", "product": "7", "target_firmware": "9003"}),
    ("PATCH", "groups/20003/", {"name": "H"}),
    ("DELETE", "groups/20003/", None),
    ("PUT", f"routers/{ROUTER}/", {"custom1": "red", "asset_id": None, "description": "d"}),
    ("PUT", f"routers/{ROUTER}/", {"custom2": 7}),
    ("PUT", f"routers/{ROUTER}/", {"group": "20007", "target_firmware": "9003"}),
    ("PATCH", f"routers/{ROUTER}/", {"name": "x"}),
    ("POST", "routers/", {"name": "x"}),
    ("PUT", MANAGER, {"configuration": [{"a": {"b": 1, "c": 2}}, [["a", "d"]]]}),
    ("PATCH", MANAGER, {"configuration": [{"a": {"d": 3}}, [["a", "b"]]], "suspended": True}),
    ("PATCH", MANAGER, {"configuration": {"a": 5}}),
    ("PATCH", MANAGER, {"suspended": "yes"}),
    ("POST", "locations/", {"router": ROUTER, "latitude": 90, "longitude": -180, "accuracy": 3}),
    ("POST", "locations/", {"router": ROUTER, "latitude": 90.1, "longitude": 0}),
    ("POST", "locations/", {"router": ROUTER, "latitude": 0, "longitude": -180.1}),
    ("POST", "locations/", {"router": ROUTER, "latitude": "0", "longitude": 0}),
    ("POST", "locations/", {"router": ROUTER, "latitude": True, "longitude": 0}),
    ("POST", "locations/", {"router": ROUTER, "latitude": 1, "longitude": 2, "method": "gps"}),
    ("POST", "locations/", {"router": ROUTER, "latitude": 1, "longitude": 2, "method": "manual"}),
    ("POST", "reboot_activity/", {"router": ROUTER}),
    ("POST", "reboot_activity/", {"router": "7"}),
    ("POST", "speed_test/", {"router": ROUTER, "config": {"x": 1}}),
    ("POST", "speed_test/", {"router": ROUTER, "config": 7}),
    ("POST", "alert_push_destinations/", DESTINATION),
    ("POST", "alert_push_destinations/", DESTINATION),
    ("POST", "alert_push_destinations/", {**DESTINATION, "suspended": True}),
    ("POST", "alert_push_destinations/", {**DESTINATION, "endpoint": {"url": 7}}),
    ("POST", "alert_push_destinations/", {**DESTINATION, "authentication": "s"}),
    ("POST", "test_alert_push_destinations/", {"destination_config_id": "{destination}"}),
    ("POST", "test_alert_push_destinations/", {"destination_config_id": "{rule}"}),
    ("PATCH", "alert_push_destinations/{destination}/", {"enabled": False, "name": "m"}),
    ("PATCH", "alert_push_destinations/{destination}/", {"enabled": 0}),
    ("GET", "alert_push_destinations/{destination}/", None),
    ("POST", "alert_rules/", RULE),
    ("POST", "alert_rules/", {**RULE, "http_destinations": ["{destination}"] * 2}),
    ("POST", "alert_rules/", {**RULE, "http_destinations": ["{rule}"]}),
    ("POST", "alert_rules/", {**RULE, "schedule": "weekly"}),
    ("POST", "alert_rules/", {**RULE, "schedule": "DAILY", "associated_accounts": ["10204"]}),
    ("POST", "alert_rules/", {**RULE, "associated_groups": "20007"}),
    ("POST", "alert_rules/", {**RULE, "settings": []}),
    ("POST", "alert_rules/", {**RULE, "filter_criteria": {"nonsense": 1}}),
    ("POST", "alert_rules/", {**RULE, "filter_criteria": {"alert_type__in": ["nonsense"]}}),
    ("POST", "alert_rules/", {**RULE, "filter_criteria": {"external_id__in": 7}}),
    ("POST", "alert_rules/", {**RULE, "filter_criteria": POOLED}),
    ("PATCH", "alert_rules/{rule}/", {"schedule": "Hourly"}),
    ("PATCH", "alert_rules/{destination}/", {"schedule": "Hourly"}),
    ("GET", "alert_rules/{rule}/", None),
    ("DELETE", "alert_rules/{rule}/", None),
    ("DELETE", "alert_push_destinations/{destination}/", None),
    ("DELETE", f"routers/{ROUTER}/", None),
    ("GET", f"routers/{ROUTER}/", None),
)
V3_REQUESTS: tuple[tuple[str, str, Any], ...] = (
    ("GET", "users?page[size]=2", None),
    ("GET", "users?page[size]=0&page[after]=30000", None),
    ("GET", "users/7", None),
    ("GET", "users?filter[last_login]=x", None),
    ("GET", "users?filter[is_active]=true&page[size]=1", None),
    ("GET", "beta/asset_endpoints?page[size]=1", None),
    ("GET", "commerce/subscriptions?page[size]=1", None),
    ("GET", "users?filter[nonsense]=1", None),
    ("GET", "nonsense", None),
    ("GET", "subscriptions/7/8", None),
    ("POST", "users", {"data": {"attributes": PERSON}}),
    ("POST", "users", {"data": {"attributes": {**PERSON, "timeout": -1}}}),
    ("POST", "users", {"data": {"attributes": []}}),
    ("POST", "users", {"data": {}}),
    ("POST", "users", {"data": {"attributes": {"account": "10157"}}}),
    ("PATCH", "users/30037", {"data": {"attributes": {"is_active": False, "first_name": "Y"}}}),
    ("PATCH", "users", {"data": {"attributes": {}}}),
    ("DELETE", "users/30037", None),
    ("POST", "subscriptions", {"data": {"attributes": {}}}),
)
CONTROLS: tuple[tuple[str, str, Any], ...] = (
    ("POST", "/sim/clock", {"advance_seconds": 60}),
    ("POST", "/sim/clock", {}),
    ("POST", "/sim/clock", {"speed": -1}),
    ("POST", "/sim/clock", []),
    ("PUT", "/sim/faults", {"limit_per_minute": -1}),
    ("PUT", "/sim/faults", {"status_500": True}),
    ("PUT", "/sim/faults", {"latency_ms": -1}),
    ("PUT", "/sim/faults", {"nonsense": 1}),
    ("PUT", "/sim/faults", {"push_nonsense": 1}),
    ("PUT", "/sim/faults", {"push_concurrency": 65}),
    ("PUT", "/sim/faults", {"push_body": "x"}),
    *(
        ("PUT", "/sim/faults", {"scenario": name})
        for name in ("flaky", "rate-limited", "slow", "late-data", None)
    ),
    ("GET", "/sim/truth/alerts?until=x", None),
    ("GET", "/sim/truth/deletions", None),
    ("GET", "/sim/state", None),
)
SCENARIOS = ("schema-drift", "poison", "hostile-values", "shard-hosts", "late-data")
SCENARIO_READS = (
    "activity_logs/?limit=3", "groups/?limit=2", "users/?limit=9&fields=id,account",
    "net_devices/?limit=60&fields=id,router&id__gt=0",
    "net_device_metrics/?limit=9&fields=id,bytes_in,rsrp,update_ts",
)  # fmt: skip


def conversation() -> dict[str, Any]:
    """Return the response to each request, in the order in which they are sent."""
    service, found = start(), {}
    for path in READS:
        found[f"GET {path}"] = _heard(service, "GET", f"/api/v2/{path}")
    for role in ("readonly", "diagnostic", "subaccount", "nobody"):
        found[f"GET accounts/ as {role}"] = _heard(service, "GET", "/api/v2/accounts/", role=role)
        found[f"DELETE users/1/ as {role}"] = _heard(
            service, "DELETE", "/api/v2/users/1/", role=role
        )
    names: dict[str, str] = {}
    for number, (method, path, body) in enumerate(WRITES):
        asked = _filled(path, names), _filled(body, names)
        heard = _heard(service, method, f"/api/v2/{asked[0]}", json=asked[1])
        names |= _named(path, heard["body"])
        found[f"{number}. {method} {path} {json.dumps(body)}"] = heard
    for number, (method, path, body) in enumerate(V3_REQUESTS):
        heard = _heard(service, method, f"/api/v3/{path}", json=body, headers=_v3_headers(body))
        found[f"v3 {number}. {method} {path} {json.dumps(body)}"] = heard
    for number, (method, path, body) in enumerate(CONTROLS):
        found[f"sim {number}. {method} {path} {json.dumps(body)}"] = _heard(
            service, method, path, json=body
        )
    log = "/api/v2/activity_logs/?limit=60&actor__id=admin"
    found["the activity log"] = _heard(service, "GET", log)
    return found | _scenarios()


def _scenarios() -> dict[str, Any]:
    """Return responses as each scenario changes them."""
    service, found = start(routers=60, days=1), {}
    for name in SCENARIOS:
        _heard(service, "PUT", "/sim/faults", json={"scenario": name})
        for path in SCENARIO_READS:
            found[f"{name}: {path}"] = _heard(service, "GET", f"/api/v2/{path}")
    return found


def _v3_headers(body: object) -> dict[str, str]:
    return BEARER if body is None else V3


def _named(path: str, body: Any) -> dict[str, str]:
    """Return the id of a created destination or rule, for later requests."""
    keys = {"alert_push_destinations/": "destination_config_id", "alert_rules/": "alert_config_id"}
    if path not in keys or not isinstance(body, dict) or keys[path] not in body:
        return {}
    return {"destination" if "push" in path else "rule": body[keys[path]]}


def _filled(value: Any, names: dict[str, str]) -> Any:
    """Return a path or body with the ids in place of their names."""
    text = json.dumps(value)
    for name, key in names.items():
        text = text.replace(f"{{{name}}}", key)
    return json.loads(text)


def _heard(service: Service, method: str, path: str, **request: Any) -> dict[str, Any]:
    """Return the status, media type and body of a response."""
    answer = service.ask(method, path, **request)
    kind = answer.headers.get("content-type", "")
    text = answer.text
    body = (
        json.loads(text, strict=False) if "json" in kind and "ndjson" not in kind and text else text
    )
    return {"status": answer.status_code, "type": kind, "body": body}


def dump() -> str:
    """Return the conversation as JSON, one exchange per line."""
    lines = (f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in conversation().items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    CONVERSATION.write_text(dump(), encoding="utf-8")
    sys.stdout.write(f"{CONVERSATION.name} is written.\n")
