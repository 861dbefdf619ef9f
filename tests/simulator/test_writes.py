import pytest

from tests.simulator.sections import section
from tests.support.service import Receiver, Service, complaint, is_validation, last_segment

PERSON = {"email": "new@person.example", "first_name": "New", "last_name": "Person"}


def last_log(service: Service):
    """Return the newest activity of the caller's own keys."""
    service.advance(minutes=1)
    return service.records("activity_logs/?actor__id=admin&limit=1")[0]


@section("Endpoints: accounts")
@pytest.mark.parametrize("parent", ["10157", 10157, "http://service.test/api/v2/accounts/10157/"])
def test_account_is_created_under_a_parent_given_as_url_or_id(fresh: Service, parent):
    answer = fresh.write("POST", "accounts/", {"account": parent, "name": "Depot East"})

    record = answer.json()
    assert answer.status_code == 201
    assert (record["name"], last_segment(record["account"])) == ("Depot East", "10157")
    assert fresh.page(f"accounts/{record['id']}/") == record
    assert record["id"] in {one["id"] for one in fresh.records("accounts/")}


@section("Endpoints: accounts")
@pytest.mark.parametrize(
    "body",
    [
        {"name": "x"},
        {"account": "10157"},
        {"account": "1", "name": "x"},
        {"account": "10157", "name": ""},
        {"account": "10157", "name": "x", "id": 5},
    ],
)
def test_account_without_its_required_fields_is_refused(fresh: Service, body):
    assert is_validation(fresh.write("POST", "accounts/", body))


@section("Endpoints: accounts")
def test_put_renames_an_account_and_returns_202(fresh: Service):
    answer = fresh.write("PUT", "accounts/10418/", {"name": "Shops"})

    assert answer.status_code == 202
    assert answer.json()["name"] == "Shops"
    assert fresh.records("accounts/?name=Shops")[0]["id"] == "10418"


@section("Errors")
def test_account_that_holds_users_cannot_be_deleted_before_them(fresh: Service):
    account = fresh.write("POST", "accounts/", {"account": "10157", "name": "x"}).json()["id"]
    user = fresh.write("POST", "users/", {**PERSON, "account": account}).json()["id"]

    refused = fresh.write("DELETE", f"accounts/{account}/")
    removed = fresh.write("DELETE", f"users/{user}/")
    deleted = fresh.write("DELETE", f"accounts/{account}/")

    assert is_validation(refused)
    assert (removed.status_code, deleted.status_code, deleted.content) == (204, 204, b"")
    assert fresh.get(f"accounts/{account}/").status_code == 404
    assert is_validation(fresh.write("DELETE", "accounts/10562/"))


@section("Endpoints: General conventions")
def test_record_is_created_in_the_requestors_account_unless_named(fresh: Service):
    mine = fresh.write("POST", "users/", PERSON, role="subaccount").json()
    named = fresh.write("POST", "users/", {**PERSON, "account": "10291"}).json()

    assert last_segment(mine["account"]) == "10204"
    assert last_segment(named["account"]) == "10291"


@section("Endpoints: General conventions")
def test_sub_account_cannot_touch_what_it_cannot_see(fresh: Service):
    root_group = fresh.records("groups/?account=10157&limit=1")[0]["id"]

    assert (
        fresh.write("PUT", f"groups/{root_group}/", {"name": "x"}, "subaccount").status_code == 404
    )
    assert is_validation(
        fresh.write("POST", "users/", {**PERSON, "account": "10157"}, "subaccount")
    )


@section("Resources: groups")
def test_group_is_created_changed_and_deleted(fresh: Service):
    product, firmware = "http://x/api/v2/products/46/", "http://x/api/v2/firmwares/9003/"
    body = {"account": "10157", "name": "North", "product": product, "target_firmware": firmware}

    group = fresh.write("POST", "groups/", body).json()

    assert (group["name"], last_segment(group["product"]), group["device_type"]) == (
        "North",
        "46",
        "router",
    )
    assert fresh.write("PUT", f"groups/{group['id']}/", {"name": "South"}).status_code == 202
    assert fresh.page(f"groups/{group['id']}/")["name"] == "South"
    assert [int(g["id"]) for g in fresh.walk("groups/?id__gt=0")][-1] == int(group["id"])
    assert fresh.write("DELETE", f"groups/{group['id']}/").status_code == 204
    assert fresh.get(f"groups/{group['id']}/").status_code == 404


@section("Endpoints: General conventions")
def test_put_changes_only_the_members_sent(fresh: Service):
    before = fresh.records("routers/?limit=1")[0]

    answer = fresh.write("PUT", f"routers/{before['id']}/", {"custom1": "red", "group": None})

    after = fresh.page(f"routers/{before['id']}/")
    changed = {name for name in before if before[name] != after[name]}
    assert answer.status_code == 202
    assert changed <= {"custom1", "group", "updated_at"}
    assert (after["custom1"], after["group"]) == ("red", None)


@section("Endpoints: General conventions")
def test_read_only_field_cannot_be_written(fresh: Service):
    router = fresh.router_ids()[0]

    assert is_validation(fresh.write("PUT", f"routers/{router}/", {"mac": "x"}))


@section("Endpoints: General conventions")
def test_deleting_a_router_deletes_all_its_data(fresh: Service):
    router = fresh.router_ids()[1]
    modem = fresh.records(f"net_devices/?router={router}&type=mdm")[0]["id"]

    assert fresh.write("DELETE", f"routers/{router}/").status_code == 204

    gone = [
        f"routers/?id={router}", f"net_devices/?router={router}", f"alerts/?router={router}",
        f"historical_locations/?router={router}", f"locations/?router={router}",
        f"router_state_samples/?router={router}", f"batteries/?router={router}",
        f"net_device_signal_samples/?net_device={modem}", f"failovers/?router_id={router}",
    ]  # fmt: skip
    assert {path: fresh.records(path) for path in gone} == {path: [] for path in gone}
    assert len(fresh.router_ids()) == 49


@section("Endpoints: Other v2 endpoints")
def test_location_set_by_hand_replaces_the_earlier_one(fresh: Service):
    router = fresh.router_ids()[1]

    made = fresh.write("POST", "locations/", {"router": router, "latitude": 1.5, "longitude": -2})

    location = made.json()
    assert made.status_code == 201
    assert (location["latitude"], location["longitude"], location["method"]) == (
        1.5,
        -2.0,
        "manual",
    )
    assert fresh.records(f"locations/?router={router}") == [location]
    assert last_segment(fresh.page(f"routers/{router}/")["last_known_location"]) == location["id"]
    assert fresh.write("DELETE", f"locations/{location['id']}/").status_code == 204
    assert fresh.records(f"locations/?router={router}") == []


@section("Endpoints: Other v2 endpoints")
@pytest.mark.parametrize("place", [(90.1, 0), (0, -180.1), ("0", 0), (True, 0)])
def test_location_outside_the_globe_or_not_a_number_is_refused(fresh: Service, place):
    latitude, longitude = place
    body = {"router": fresh.router_ids()[1], "latitude": latitude, "longitude": longitude}

    assert is_validation(fresh.write("POST", "locations/", body))


@section("Endpoints: configuration_managers")
@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_new_configuration_is_a_new_version(fresh: Service, method):
    router = fresh.router_ids()[0]
    before = fresh.records(f"configuration_managers/?router={router}")[0]
    wanted = {"configuration": [{"system": {"asset": "7"}}, []], "suspended": True}

    answer = fresh.write(method, f"configuration_managers/{before['id']}/", wanted)

    after = fresh.page(f"configuration_managers/{before['id']}/")
    assert answer.status_code == 202
    assert after["version_number"] == before["version_number"] + 1
    assert after["configuration"][0]["system"]["asset"] == "7"
    assert after["suspended"] is True


@section("Endpoints: configuration_managers")
def test_put_replaces_a_configuration(fresh: Service):
    manager = fresh.records("configuration_managers/?limit=1")[0]["id"]
    wanted = [{"system": {"asset": "7"}}, [["lan", "0"]]]

    fresh.write("PUT", f"configuration_managers/{manager}/", {"configuration": wanted})

    assert fresh.page(f"configuration_managers/{manager}/")["configuration"] == wanted


@section("Endpoints: configuration_managers")
def test_patch_changes_only_the_part_of_a_configuration_that_is_sent(fresh: Service):
    before = fresh.records("configuration_managers/?limit=1")[0]
    path = f"configuration_managers/{before['id']}/"
    stored, actual = before["configuration"][0]["system"], before["actual"][0]["system"]
    wan = {"rules": {"a": 1, "b": 2}}

    fresh.write("PATCH", path, {"configuration": [{"system": {"asset": "7"}, "wan": wan}, []]})
    fresh.write("PATCH", path, {"configuration": [{"wan": {"rules": {"b": 3}}}, [["wan", "x"]]]})
    fresh.write("PATCH", path, {"configuration": [{}, [["wan", "rules", "a"]]]})
    fresh.write("PATCH", path, {"suspended": True})

    after = fresh.page(path)
    system = {**stored, "asset": "7"}
    removed = [["wan", "x"], ["wan", "rules", "a"]]
    assert after["configuration"] == [{"system": system, "wan": {"rules": {"b": 3}}}, removed]
    assert after["actual"][0] == {
        **before["actual"][0], "system": {**actual, **system}, "wan": {"rules": {"b": 3}}
    }  # fmt: skip


@section("Resources: configuration_managers")
@pytest.mark.parametrize(
    "configuration", [[[]], [{}], [{}, []] * 2, [{}, ["wan"]], [{}, [[]]], [[], {}], 7, "x"]
)
@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_configuration_is_an_object_or_a_pair_of_updates_and_removals(
    fresh: Service, method, configuration
):
    manager = fresh.records("configuration_managers/?limit=1")[0]["id"]

    answer = fresh.write(
        method, f"configuration_managers/{manager}/", {"configuration": configuration}
    )

    assert is_validation(answer)


@section("Resources: configuration_managers")
@pytest.mark.parametrize(
    ("scep", "status"),
    [({"ca_print": None}, 409), ({"url": "x"}, 202), ({"ca_print": None, "server": "NDES"}, 202)],
)
def test_enrolment_patch_may_not_null_ca_print_unless_the_server_is_ndes(
    fresh: Service, scep, status
):
    manager = fresh.records("configuration_managers/?limit=1")[0]["id"]
    body = {"configuration": [{"certmgmt": {"scep": [scep]}}, []]}

    assert fresh.write("PATCH", f"configuration_managers/{manager}/", body).status_code == status


@section("Endpoints: Other v2 endpoints")
def test_reboot_and_speed_test_can_be_posted_but_not_listed(fresh: Service):
    router = fresh.router_ids()[0]

    reboot = fresh.write("POST", "reboot_activity/", {"router": router})
    test = fresh.write("POST", "speed_test/", {"router": router})

    assert (reboot.status_code, test.status_code) == (201, 201)
    assert complaint(fresh.get("reboot_activity/"))[0] == 405
    assert complaint(fresh.get("speed_test/"))[0] == 405
    assert test.json()["state"] == "running"
    fresh.advance(minutes=2)
    assert fresh.page(f"speed_test/{test.json()['id']}/")["state"] == "complete"


WRITES = [
    ("POST", "accounts/", {"account": "10157", "name": "N"}, "create rome account"),
    ("PUT", "accounts/10418/", {"name": "N"}, "update rome account"),
    ("POST", "users/", PERSON, "create sso user"),
    ("PUT", "users/30024/", {"first_name": "X"}, "update sso user"),
    ("DELETE", "users/30024/", None, "delete sso user"),
    ("PUT", "groups/20003/", {"name": "G"}, "update group"),
]


@section("Resources: activity_logs")
@pytest.mark.parametrize(("method", "path", "body", "entry"), WRITES)
def test_write_appears_in_the_activity_log_with_before_and_after(
    fresh: Service, method, path, body, entry
):
    assert fresh.write(method, path, body).is_success

    log = last_log(fresh)
    action, after = log["action"], log["action"]["after"]
    written = {name: value for name, value in (body or {}).items() if name != "account"}
    assert f"{action['type_name']} {log['object']['type_name']}" == entry
    assert after.items() >= written.items()
    assert (log["actor"]["type_name"], log["actor"]["id"]) == ("api key", "admin")
    assert (action["before"] == {}) == (method == "POST")
    assert (after == {}) == (method == "DELETE")


@section("Resources: activity_logs")
def test_only_writes_about_people_are_hidden_from_keys_that_see_no_people(fresh: Service):
    assert fresh.write("PUT", "groups/20003/", {"name": "G"}).is_success
    assert fresh.write("PUT", "users/30024/", {"first_name": "X"}).is_success
    fresh.advance(minutes=1)

    def seen(role: str) -> list[str]:
        answer = fresh.ask("GET", "/api/v2/activity_logs/?actor__id=admin&limit=9", role=role)
        return sorted(log["object"]["type_name"] for log in answer.json()["data"])

    assert seen("admin") == ["group", "sso user"]
    assert seen("full") == ["group"]


@section("Resources: alert_push_destinations")
def test_secret_is_always_a_star_on_read(fresh: Service):
    made = destination(fresh)

    read = fresh.page(f"alert_push_destinations/{made['destination_config_id']}/")

    assert made["authentication"] == read["authentication"] == {"secret": "*"}
    change = {"name": "m", "authentication": {"secret": "n3w-s3cret"}}
    path = f"alert_push_destinations/{made['destination_config_id']}/"
    assert fresh.write("PATCH", path, change).status_code == 202
    assert last_log(fresh)["action"]["after"] == {"name": "m"}
    logged = fresh.get("activity_logs/?actor__id=admin").text
    assert logged.count('"notification_configuration"') == 2
    assert "s3cret" not in logged
    assert made["resource_url"].endswith(f"/{made['destination_config_id']}/")


def destination(service: Service, url="http://receiver.test/a", secret="s3cret", **more):
    """Create a push destination and return its record."""
    body = {"name": "n", "endpoint": {"url": url}, "authentication": {"secret": secret}, **more}
    answer = service.write("POST", "alert_push_destinations/", body)
    assert answer.status_code == 201, answer.text
    return answer.json()


@section("Limits")
@pytest.mark.parametrize(("length", "status"), [(256, 201), (257, 409)])
def test_secret_has_at_most_256_characters(fresh: Service, length, status):
    body = {
        "name": "n",
        "endpoint": {"url": "http://receiver.test/"},
        "authentication": {"secret": "x" * length},
    }

    assert fresh.write("POST", "alert_push_destinations/", body).status_code == status


@section("Errors")
def test_two_destinations_of_an_account_cannot_share_a_url(fresh: Service):
    first, second = destination(fresh), destination(fresh, "http://receiver.test/b")
    path = f"alert_push_destinations/{second['destination_config_id']}/"

    same = {k: first[k] for k in ("name", "endpoint")} | {"authentication": {"secret": "x"}}
    assert is_validation(fresh.write("POST", "alert_push_destinations/", same))
    assert is_validation(fresh.write("PATCH", path, {"endpoint": first["endpoint"]}))
    assert fresh.write("PATCH", path, {"endpoint": second["endpoint"]}).status_code == 202


@section("Errors")
def test_suspended_cannot_be_patched_from_false_to_true(fresh: Service):
    path = f"alert_push_destinations/{destination(fresh)['destination_config_id']}/"

    assert is_validation(fresh.write("PATCH", path, {"suspended": True}))
    assert fresh.write("PATCH", path, {"suspended": False}).status_code == 202


@section("Endpoints: alert_push_destinations")
def test_destination_is_patched_with_an_empty_response_and_deleted(fresh: Service):
    key = destination(fresh)["destination_config_id"]

    patched = fresh.write("PATCH", f"alert_push_destinations/{key}/", {"name": "renamed"})

    assert (patched.status_code, patched.content) == (202, b"")
    found = fresh.records(f"alert_push_destinations/?destination_config_id={key}")
    assert [record["name"] for record in found] == ["renamed"]
    assert fresh.write("DELETE", f"alert_push_destinations/{key}/").status_code == 204
    assert fresh.get(f"alert_push_destinations/{key}/").status_code == 404


def rule(**changes):
    """Return a request body that creates an alert rule."""
    criteria = {"alert_type__in": ["failover_event"]}
    body = {"schedule": None, "filter_criteria": criteria, "http_destinations": []}
    return {**body, "associated_accounts": [10157], **changes}


@section("Endpoints: alert_rules")
def test_rule_is_created_patched_with_201_and_deleted(fresh: Service):
    made = fresh.write("POST", "alert_rules/", rule())
    key = made.json()["alert_config_id"]

    patched = fresh.write("PATCH", f"alert_rules/{key}/", {"schedule": "daily"})

    assert (made.status_code, patched.status_code, patched.content) == (201, 201, b"")
    record = fresh.page(f"alert_rules/{key}/")
    assert (record["schedule"], record["external_rules"], record["last_summary_ts"]) == (
        "daily",
        None,
        None,
    )
    assert fresh.write("DELETE", f"alert_rules/{key}/").status_code == 204
    assert fresh.records(f"alert_rules/?alert_config_id={key}") == []


@section("Resources: alert_rules")
@pytest.mark.parametrize("missing", ["schedule", "filter_criteria", "http_destinations"])
def test_rule_without_a_required_field_is_refused(fresh: Service, missing):
    body = rule()
    del body[missing]

    assert is_validation(fresh.write("POST", "alert_rules/", body))


@section("Resources: alert_rules")
@pytest.mark.parametrize(
    "changes",
    [{"schedule": "weekly"}, {"filter_criteria": {"alert_type__in": ["nonsense"]}},
     {"http_destinations": ["6a28a000-e27e-11f1-acbe-5fb3d3f9bc85"]}, {"email_destinations": [1]},
     {"associated_groups": [1]}],
)  # fmt: skip
def test_rule_with_a_value_that_does_not_exist_is_refused(fresh: Service, changes):
    assert is_validation(fresh.write("POST", "alert_rules/", rule(**changes)))


@section("Resources: alert_rules")
@pytest.mark.parametrize(
    ("settings", "status"),
    [
        (None, 409),
        ({}, 409),
        ({"pdp_router_overage": {"carrier": "Nobody", "thresholds": [80]}}, 409),
        ({"pdp_router_overage": {"carrier": "Northcell", "thresholds": "80"}}, 409),
        ({"pdp_router_overage": {"carrier": "Northcell", "thresholds": [80, 95]}}, 201),
        ({"pdp_router_overage": {"carrier": "Northcell", "thresholds": [80]}, "other": {}}, 201),
    ],
)
def test_pooled_usage_settings_are_checked_against_the_accounts_carriers(
    fresh: Service, settings, status
):
    criteria = {"alert_type__in": ["pdp_router_overage"]}

    answer = fresh.write("POST", "alert_rules/", rule(filter_criteria=criteria, settings=settings))

    assert answer.status_code == status


@section("Endpoints: alerts")
def test_without_rules_there_are_no_alerts(make_service):
    service = make_service(rules=False)

    assert service.records("alerts/") == []
    assert service.truth("alerts") == []


@section("Endpoints: alerts")
def test_alerts_exist_from_the_moment_a_rule_covers_them(make_service):
    service = make_service(rules=False)
    key = service.write("POST", "alert_rules/", rule()).json()["alert_config_id"]
    service.advance(days=1)
    service.write("DELETE", f"alert_rules/{key}/")
    service.advance(days=1)

    alerts = service.truth("alerts")

    begun = [e["started_at"] for e in service.truth("failover_episodes")]
    during = [at for at in begun if "2026-06-15T18:00" <= at < "2026-06-16T17:59:50"]
    assert {alert["type"] for alert in alerts} == {"failover_event"}
    assert len(alerts) == len(during) > 5


@section("Observed: Fields")
def test_rule_takes_effect_only_where_it_is_associated(make_service):
    service = make_service(rules=False)
    service.write("POST", "alert_rules/", rule(associated_accounts=[]))
    service.advance(days=2)
    assert service.truth("alerts") == []

    service.write("POST", "alert_rules/", rule(associated_accounts=[10291]))
    service.advance(days=2)

    south = {r["id"] for r in service.records("routers/?account=10291&limit=500")}
    routers = {last_segment(alert["router"]) for alert in service.truth("alerts")}
    assert routers
    assert routers <= south


@section("Observed: Fields")
def test_rule_of_a_group_covers_the_routers_of_that_group_only(make_service):
    service = make_service(rules=False)
    group = 20003
    service.write("POST", "alert_rules/", rule(associated_accounts=[], associated_groups=[group]))
    service.advance(days=2)

    members = {r["id"] for r in service.records(f"routers/?group={group}&limit=500")}
    routers = {last_segment(alert["router"]) for alert in service.truth("alerts")}
    assert routers
    assert routers <= members


@section("Endpoints: alert_rules")
def test_destination_can_be_tested_before_a_rule_names_it(fresh: Service):
    key = destination(fresh)["destination_config_id"]

    good = fresh.write("POST", "test_alert_push_destinations/", {"destination_config_id": key})
    fresh.receiver.error = "HTTP 503"
    bad = fresh.write("POST", "test_alert_push_destinations/", {"destination_config_id": key})

    assert good.json() == {"success": True, "details": "delivered"}
    assert bad.json() == {"success": False, "details": "HTTP 503"}
    assert len(fresh.receiver.received) == 2
    assert isinstance(fresh.receiver, Receiver)
