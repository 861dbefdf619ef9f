import pytest

from tests.simulator.sections import section
from tests.support.service import BEARER, JSON_API, PORTAL, Service, keys, last_segment

HEADERS = ("X-PORTAL-API-ID", "X-PORTAL-API-KEY", "X-MGR-API-ID", "X-MGR-API-KEY")
UNAUTHORIZED = {"status_code": 401, "exception": "unauthorized", "success": False}


@section("Authentication: v2")
@pytest.mark.parametrize("name", HEADERS)
@pytest.mark.parametrize("value", [None, "wrong"])
def test_call_with_one_header_missing_or_wrong_is_unauthorized(service: Service, name, value):
    headers = keys()
    del headers[name]
    if value is not None:
        headers[name] = value

    answer = service.get("accounts/", headers=headers)

    body = answer.json()
    assert answer.status_code == 401
    assert isinstance(body.pop("message"), str)
    assert body == UNAUTHORIZED


@section("Authentication: v2")
@pytest.mark.parametrize("role", ["admin", "full", "readonly", "diagnostic", "subaccount"])
def test_every_role_may_read(service: Service, role):
    assert service.get("routers/?limit=1", role=role).status_code == 200


@section("Authentication: v2")
@pytest.mark.parametrize("role", ["readonly", "diagnostic"])
def test_read_only_roles_cannot_write(fresh: Service, role):
    answer = fresh.write("POST", "users/", {"email": "a@b.example"}, role=role)

    forbidden = {"errors": [], "exception": {"type": "error", "message": "forbidden"}}
    assert answer.status_code == 403
    assert answer.json() == forbidden


@section("Authentication: v2")
@pytest.mark.parametrize("role", ["admin", "full", "subaccount"])
def test_administrators_and_full_users_may_write(fresh: Service, role):
    person = {"email": "a@b.example", "first_name": "A", "last_name": "B"}

    assert fresh.write("POST", "users/", person, role=role).status_code == 201


@section("Authentication: Account-usage counting")
@pytest.mark.parametrize(
    ("headers", "counted"),
    [
        ({}, 0),
        ({"X-MGR-API-ID": "admin-id", "X-MGR-API-KEY": "admin-key"}, 0),
        ({**keys(), "X-PORTAL-API-ID": "wrong"}, 0),
        ({**keys(), "X-PORTAL-API-KEY": "wrong"}, 0),
        (keys(), 1),
        (PORTAL, 1),
        ({**keys(), "X-MGR-API-KEY": "wrong"}, 1),
    ],
)
def test_calls_count_when_both_portal_keys_are_valid(fresh: Service, headers, counted):
    fresh.get("accounts/", headers=headers)

    assert fresh.state()["counted_calls"] == counted


@section("Limits")
def test_call_without_trailing_slash_is_redirected_and_counts_twice(fresh: Service):
    answer = fresh.get("products?limit=2", follow_redirects=True)

    assert [one.status_code for one in (*answer.history, answer)] == [301, 200]
    assert answer.json()["meta"]["limit"] == 2
    assert fresh.state()["counted_calls"] == 2


@section("Endpoints: General conventions")
def test_redirected_write_keeps_its_method(fresh: Service):
    answer = fresh.ask("POST", "/api/v2/users", json={})

    assert answer.status_code == 308
    assert answer.headers["location"].endswith("/api/v2/users/")


@section("Endpoints: accounts")
def test_no_account_of_the_fleet_is_disabled(service: Service):
    assert {record["is_disabled"] for record in service.truth("accounts")} == {False}


@section("Endpoints: accounts")
def test_sub_account_sees_itself_and_what_is_nested_in_it(service: Service):
    everything = {record["id"]: record for record in service.records("accounts/")}

    own = service.records("accounts/", role="subaccount")

    names = {record["id"] for record in own}
    parents = {last_segment(record["account"]) for record in own}
    assert 1 < len(own) < len(everything)
    assert parents - names == {next(i for i, r in everything.items() if r["account"] is None)}


@section("Endpoints: accounts")
@pytest.mark.parametrize("name", ["routers", "net_devices", "locations", "failovers", "groups"])
def test_sub_account_sees_only_records_of_its_accounts(service: Service, name):
    own = {record["id"] for record in service.records("accounts/", role="subaccount")}

    records = service.records(f"{name}/?limit=500", role="subaccount")

    owners = {str(r.get("account_id") or last_segment(r["account"])) for r in records}
    assert owners
    assert owners <= own
    assert len(records) < len(service.records(f"{name}/?limit=500"))


@section("Endpoints: alerts")
def test_sub_account_sees_alerts_of_its_own_routers_only(service: Service):
    own = {record["id"] for record in service.records("routers/?limit=500", role="subaccount")}

    alerts = service.records("alerts/?limit=500&router__isnull=false", role="subaccount")

    assert {last_segment(alert["router"]) for alert in alerts} <= own


@section("Authentication: v3")
@pytest.mark.parametrize("headers", [{"Accept": JSON_API}, {**BEARER, "Authorization": "Bearer x"}])
def test_v3_needs_the_bearer_token(service: Service, headers):
    answer = service.ask("GET", "/api/v3/users", headers=headers)

    assert answer.status_code == 401
    assert answer.json()["errors"][0]["status"] == "401"
