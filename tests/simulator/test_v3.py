import json

import pytest

from tests.simulator.sections import section
from tests.support.service import BEARER, HOST, JSON_API, Service

LISTS = (
    "subscriptions", "asset_endpoints", "users", "private_cellular_networks",
    "private_cellular_cores", "private_cellular_sims", "private_cellular_radios",
    "private_cellular_radio_groups", "private_cellular_radio_statuses",
)  # fmt: skip
FULL = {"email", "first_name", "last_name", "is_active", "last_login", "pending_email"}
COLLABORATOR = {"email", "first_name", "last_name", "timeout"}


def ask(service: Service, path: str, method="GET", attributes=None):
    headers, content = dict(BEARER), None
    if attributes is not None:
        headers["Content-Type"] = JSON_API
        content = json.dumps({"data": {"type": "users", "attributes": attributes}})
    return service.ask(method, f"/api/v3/{path}", headers=headers, content=content)


def walk(service: Service, path: str):
    """Return all items, page by page, and the number of pages."""
    items, pages = [], 0
    while path:
        body = ask(service, path).json()
        items += body["data"]
        pages += 1
        path = (body["links"]["next"] or "").removeprefix(f"{HOST}/api/v3/")
    return items, pages


@section("Endpoints: v3")
@pytest.mark.parametrize("name", LISTS)
def test_every_list_returns_200_with_a_json_api_document(service: Service, name):
    answer = ask(service, f"beta/{name}")

    assert answer.status_code == 200
    assert answer.headers["content-type"] == JSON_API
    assert set(answer.json()) == {"data", "links", "meta"}
    for item in answer.json()["data"]:
        assert set(item) == {"type", "id", "attributes", "relationships", "links"}
        assert ask(service, item["links"]["self"].split("/api/v3/")[1]).json()["data"] == item
        assert item["type"] == name
    assert answer.json()["data"]


@section("Observed: v3")
@pytest.mark.parametrize("name", LISTS)
def test_pages_follow_links_next_until_it_is_null(service: Service, name):
    in_threes, pages = walk(service, f"{name}?page[size]=3")
    at_once, _ = walk(service, f"{name}?page[size]=50")

    assert in_threes == at_once
    assert pages == -(-len(at_once) // 3)
    assert len({item["id"] for item in at_once}) == len(at_once)


@section("Simulator: truth")
@pytest.mark.parametrize("name", LISTS)
def test_v3_lists_are_the_truth(service: Service, name):
    items, _ = walk(service, f"{name}?page[size]=50")

    assert items == service.truth("users_v3" if name == "users" else name)


@section("Endpoints: v3")
def test_every_relation_leads_to_an_item_of_a_list(service: Service):
    items = {name: walk(service, f"{name}?page[size]=50")[0] for name in LISTS}
    listed = {(item["type"], item["id"]) for found in items.values() for item in found}

    named = {
        (relation["data"]["type"], relation["data"]["id"])
        for name, found in items.items()
        for item in found
        for relation in item["relationships"].values()
        if name != "asset_endpoints"  # it names assignments, which no list has
    }

    assert {pair for pair in named if pair[0] in LISTS} - listed == set()
    assert {("private_cellular_networks", "net-1"), ("private_cellular_networks", "net-2")} < named


@section("Observed: v3")
def test_page_holds_50_items_at_most(service: Service):
    assert len(ask(service, "asset_endpoints?page[size]=1000").json()["data"]) == 50


@section("Observed: v3")
@pytest.mark.parametrize("path", ["beta/users/", "beta/subscriptions/"])
def test_trailing_slash_is_not_found_in_beta_paths(service: Service, path):
    assert ask(service, path).status_code == 404
    assert ask(service, path.removeprefix("beta/")).status_code == 200


@section("Versioning")
@pytest.mark.parametrize(
    "headers", [{**BEARER, "Accept": "application/json"}, {**BEARER, "Content-Type": "text/plain"}]
)
def test_other_media_types_are_refused(service: Service, headers):
    assert service.ask("GET", "/api/v3/users", headers=headers).status_code in (406, 415)


@section("Observed: v3")
def test_filter_takes_several_values(service: Service):
    items, _ = walk(service, "asset_endpoints?filter[hardware_series]=E100,V700&page[size]=50")
    everything, _ = walk(service, "asset_endpoints?page[size]=50")

    wanted = [i for i in everything if i["attributes"]["hardware_series"] in ("E100", "V700")]
    assert items == wanted
    assert 0 < len(wanted) < len(everything)


@section("Observed: v3")
@pytest.mark.parametrize("query", ["filter[nonsense]=1", "page[size]=x", "offset=1"])
def test_unknown_parameter_is_refused_with_an_errors_array(service: Service, query):
    answer = ask(service, f"users?{query}")

    assert answer.status_code == 400
    assert answer.json()["errors"]


@section("Observed: v3")
def test_asset_endpoints_join_routers_on_the_mac_alone(service: Service):
    assets, _ = walk(service, "asset_endpoints?page[size]=50")
    routers = service.records("routers/?limit=500")

    macs = {router["mac"].replace(":", "").upper() for router in routers}
    assert {asset["attributes"]["mac_address"] for asset in assets} == macs
    assert not {asset["id"] for asset in assets} & {router["id"] for router in routers}


@section("Observed: v3")
def test_subscription_has_a_type_and_no_status(service: Service):
    for item in walk(service, "subscriptions")[0]:
        assert set(item["attributes"]) == {"name", "start_time", "end_time", "quantity"}
        assert item["relationships"]["subscription_type"]["data"]["id"]


@section("Observed: v3")
def test_assignments_of_a_device_are_found_by_their_ids_only(service: Service):
    assets, _ = walk(service, "asset_endpoints?page[size]=50")
    linked = [
        [link["id"] for link in asset["relationships"]["subscriptions"]["data"]] for asset in assets
    ]
    ids = [id_ for found in linked for id_ in found]
    listed = {item["id"] for item in walk(service, "subscriptions")[0]}

    assert linked == [asset["attributes"]["subscription_ids"] for asset in assets]
    assert {len(found) for found in linked} == {0, 1, 2}
    assert len(set(ids)) == len(ids)
    assert not listed & set(ids)
    assert ask(service, f"subscriptions/{ids[0]}").status_code == 404
    found, pages = walk(service, f"subscriptions?filter[id]={','.join(ids)},none&page[size]=7")
    assert {item["id"] for item in found} == set(ids)
    assert pages == -(-len(ids) // 7)
    assert found == service.truth("asset_endpoint_subscriptions")
    assert ask(service, f"subscriptions?filter[id]={min(listed)}").json()["data"][0]["id"] in listed


@section("Observed: v3")
def test_assignments_move_to_other_devices_and_are_regraded_over_time(fresh: Service):
    def held() -> dict[str, set[str]]:
        assets, _ = walk(fresh, "asset_endpoints?page[size]=50")
        return {asset["id"]: set(asset["attributes"]["subscription_ids"]) for asset in assets}

    def ids(found: dict[str, set[str]]) -> set[str]:
        return set().union(*found.values())

    before = held()
    fresh.ask("POST", "/sim/clock", json={"advance_seconds": 36 * 3600})
    after = held()

    kept = ids(before) & ids(after)
    moved = {id_ for id_ in kept if [a for a in before if id_ in before[a] and id_ not in after[a]]}
    assert moved
    assert ids(before) - kept
    assert ids(after) - kept


@section("Observed: v3")
def test_some_lists_say_how_many_items_and_pages_they_have(service: Service):
    items, pages = walk(service, "asset_endpoints?page[size]=20")

    meta = ask(service, "asset_endpoints?page[size]=20").json()["meta"]
    assert meta == {"pagination": {"count": len(items), "pages": pages}}
    assert ask(service, "users").json()["meta"] == {}


@section("Change log")
def test_collaborators_have_a_reduced_set_of_attributes(service: Service):
    sets = {frozenset(item["attributes"]) for item in walk(service, "users")[0]}

    assert sets == {frozenset(FULL), frozenset(COLLABORATOR)}


@section("Endpoints: v3")
def test_user_is_added_without_a_tenant_modified_and_deleted(fresh: Service):
    new = {"email": "n@p.example", "first_name": "N", "last_name": "P"}

    added = ask(fresh, "beta/users", "POST", new)
    path = f"beta/users/{added.json()['data']['id']}"
    changed = ask(fresh, path, "PATCH", {"first_name": "M", "is_active": False})
    deleted = ask(fresh, path, "DELETE")

    assert (added.status_code, changed.status_code, deleted.status_code) == (201, 200, 204)
    assert added.json()["data"]["attributes"].items() >= new.items()
    assert (
        changed.json()["data"]["attributes"].items()
        >= {"first_name": "M", "is_active": False}.items()
    )
    assert ask(fresh, path).status_code == 404


@section("Observed: v3")
def test_user_is_added_with_the_tenant_that_a_client_finds_in_a_subscription(fresh: Service):
    new = {"email": "n@p.example", "first_name": "N", "last_name": "P"}
    subscription = ask(fresh, "subscriptions?limit=1").json()["data"][0]
    tenant = subscription["relationships"]["tenants"]["data"]
    document = {"type": "users", "attributes": new, "relationships": {"tenant": {"data": [tenant]}}}
    headers = {**BEARER, "Content-Type": JSON_API}

    for path in ("users", "users/", "beta/users"):
        document["attributes"]["email"] = f"{path.replace('/', '.')}@p.example"
        answer = fresh.ask(
            "POST", f"/api/v3/{path}", headers=headers, content=json.dumps({"data": document})
        )
        assert answer.status_code == 201
        assert answer.json()["data"]["attributes"].items() >= document["attributes"].items()


@section("Endpoints: v3")
def test_user_added_in_v3_is_a_user_of_v2_too(fresh: Service):
    new = {"email": "n@p.example", "first_name": "N", "last_name": "P"}
    identity = ask(fresh, "users", "POST", new).json()["data"]["id"]

    assert fresh.page(f"users/{identity}/")["email"] == "n@p.example"
    fresh.advance(minutes=1)
    assert fresh.records("activity_logs/?limit=1")[0]["object"]["user"]["email"] == "n@p.example"


@section("Endpoints: v3")
@pytest.mark.parametrize(
    "content", ["{", "[]", '{"data": {}}', '{"data": {"attributes": {"x": 1}}}']
)
def test_bad_user_document_is_refused(fresh: Service, content):
    headers = {**BEARER, "Content-Type": JSON_API}

    answer = fresh.ask("POST", "/api/v3/users", headers=headers, content=content)

    assert answer.status_code == 400
    assert answer.json()["errors"]


@section("Observed: Rates and failures")
def test_faults_affect_v3_too(fresh: Service):
    fresh.ask("PUT", "/sim/faults", json={"status_500": 1})

    assert ask(fresh, "users").status_code == 500


@section("Observed: Rates and failures")
def test_v3_past_the_limit_is_a_409_without_an_errors_array(fresh: Service):
    fresh.ask("PUT", "/sim/faults", json={"limit_per_minute": 1})

    first, second = ask(fresh, "users"), ask(fresh, "users")

    assert (first.status_code, second.status_code) == (200, 409)
    assert "errors" not in second.json()
