"""Calls that published clients and scripts make: each gets the answer that it was written for."""

import pytest

from tests.simulator.sections import section
from tests.support.service import Service, complaint


@section("Resources: configuration_managers")
@pytest.mark.parametrize("spelling", ["router.id", "router", "router.id__in", "router__in"])
def test_configuration_of_a_router_is_found_by_either_spelling_of_the_filter(
    service: Service, spelling: str
):
    router = service.router_ids()[1]

    [found] = service.records(f"configuration_managers/?{spelling}={router}&fields=id,router")

    assert found["router"].rstrip("/").rpartition("/")[2] == router


@section("Resources: configuration_managers")
@pytest.mark.parametrize("name", ["router.name", "version_number.id", ".id", "id.id"])
def test_filter_with_a_dot_is_refused_unless_it_is_the_id_of_a_relation(
    service: Service, name: str
):
    assert complaint(service.get(f"configuration_managers/?{name}=1"))[0] == 409


@section("Resources: configuration_managers")
@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_suspending_a_configuration_shows_in_the_routers_status_until_it_is_resumed(
    fresh: Service, method: str
):
    router = fresh.router_ids()[0]
    [manager] = fresh.records(f"configuration_managers/?router={router}&fields=id")
    path = f"configuration_managers/{manager['id']}/"
    before = {one["id"]: one["config_status"] for one in fresh.records("routers/")}

    fresh.write(method, path, {"suspended": True})
    suspended = {one["id"]: one["config_status"] for one in fresh.records("routers/")}
    found = [one["id"] for one in fresh.records("routers/?config_status=suspended")]
    fresh.write(method, path, {"suspended": False})
    resumed = {one["id"]: one["config_status"] for one in fresh.records("routers/")}

    assert suspended == {**before, router: "suspended"}
    assert router in found
    assert resumed == before


@section("Endpoints: Other v2 endpoints")
def test_speed_test_of_interfaces_names_them_and_has_a_result_for_each(fresh: Service):
    modems = [one for one in fresh.records("net_devices/?type=mdm&limit=500") if one["router"]]
    ids = [int(one["id"]) for one in modems[:2]]
    account = fresh.records("accounts/?limit=1")[0]["resource_url"]
    config = {"net_device_ids": ids, "port": 12865, "size": None, "test_type": "TCP Download"}

    begun = fresh.write("POST", "speed_test/", {"account": account, "config": config})
    fresh.advance(minutes=2)
    done = fresh.page(f"speed_test/{begun.json()['id']}/")

    assert begun.status_code == 201
    assert (begun.json()["config"], begun.json()["router"]) == (config, modems[0]["router"])
    assert done["state"] == "complete"
    measured = [one["net_device"].rstrip("/").rpartition("/")[2] for one in done["results"]]
    assert measured == [*map(str, ids)]


@section("Endpoints: Other v2 endpoints")
@pytest.mark.parametrize("ids", [[], [1], ["x"], 7, [None]])
def test_speed_test_without_an_interface_that_exists_is_refused(fresh: Service, ids):
    refused = fresh.write("POST", "speed_test/", {"config": {"net_device_ids": ids}})

    assert complaint(refused)[0] in {400, 409}


@section("Endpoints: Other v2 endpoints")
def test_rebooting_a_group_asks_each_of_its_routers(fresh: Service):
    group = fresh.records("routers/?limit=1")[0]["group"]
    number = group.rstrip("/").rpartition("/")[2]
    members = {one["id"] for one in fresh.records(f"routers/?group={number}&limit=500")}

    answer = fresh.write("POST", "reboot_activity/", {"group": group})

    fresh.advance(minutes=1)
    newest = fresh.records(f"activity_logs/?actor__id=admin&limit={len(members)}")
    assert answer.status_code == 201
    assert {one["action"]["type_name"] for one in newest} == {"request"}
    assert {one["object"]["id"] for one in newest} == members


@section("Endpoints: Other v2 endpoints")
def test_a_router_moves_to_another_account_with_all_that_belongs_to_it(fresh: Service):
    router = fresh.records("routers/?group__isnull=false&limit=1")[0]
    target = next(
        one for one in fresh.records("accounts/") if one["resource_url"] != router["account"]
    )
    number = router["id"]

    answer = fresh.write("PUT", f"routers/{number}/", {"account": target["resource_url"]})

    moved = fresh.page(f"routers/{number}/")
    assert answer.status_code == 202
    assert (moved["account"], moved["group"]) == (target["resource_url"], None)
    assert {one["id"] for one in fresh.records(f"routers/?account={target['id']}&limit=500")} >= {
        number
    }
    interfaces = fresh.records(f"net_devices/?router={number}")
    assert {one["account"] for one in interfaces} == {target["resource_url"]}
    fresh.advance(minutes=1)
    [log] = fresh.records("activity_logs/?actor__id=admin&limit=1")
    before, after = (log["action"][name]["account"] for name in ("before", "after"))
    assert (before, after) == (router["account"], target["resource_url"])


@section("Endpoints: Other v2 endpoints")
def test_a_router_stays_where_it_is_if_the_account_is_its_own_or_unknown(fresh: Service):
    router = fresh.records("routers/?group__isnull=false&limit=1")[0]
    path = f"routers/{router['id']}/"

    fresh.write("PUT", path, {"account": router["account"]})
    refused = fresh.write("PUT", path, {"account": "https://s/api/v2/accounts/1/"})

    assert complaint(refused)[0] == 409
    found = fresh.page(path)
    assert (found["account"], found["group"]) == (router["account"], router["group"])


@section("Observed: Fields")
def test_calls_of_a_monitoring_template_get_what_it_reads(service: Service):
    """A published template for a monitoring server: a list of devices, then each device."""
    names = "id,device_type,ipv4_address,name,group,description"
    devices = list(service.walk(f"routers/?fields={names}&limit=500"))
    groups = list(service.walk("groups/?limit=500"))
    assert {frozenset(device) for device in devices} == {frozenset(names.split(","))}
    for device in devices:
        ends = [one for one in groups if (device["group"] or "").endswith(f"{one['id']}/")]
        assert len(ends) == (device["group"] is not None)

    for device in devices[:5]:
        whole = service.page(f"routers/{device['id']}/")
        assert isinstance(service.page(f"routers/{device['id']}/lans/"), dict)
        assert service.ask("GET", whole["actual_firmware"]).json()["version"]
        if whole["last_known_location"]:
            place = service.ask("GET", whole["last_known_location"]).json()
            assert {"latitude", "longitude", "updated_at"} <= place.keys()
        interfaces = list(service.walk(f"net_devices/?router={device['id']}&limit=500"))
        assert {"connection_state", "mode", "type", "uptime"} <= interfaces[0].keys()
        read = ("full_product_name", "reboot_required", "upgrade_pending", "state", "serial_number")
        assert {*read, "mac", "locality", "config_status"} <= whole.keys()
