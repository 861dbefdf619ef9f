import json
import re

import pytest

from fleetsim.resource_columns import ColumnKind
from fleetsim.resources import RESOURCES
from tests.simulator.sections import section
from tests.support.service import HOST, Service, complaint, instant, is_validation, last_segment

OFFSET = sorted(name for name, resource in RESOURCES.items() if resource.rows is not None)
ID_PAGED = (
    "groups",
    "net_devices",
    "net_device_health",
    "net_device_metrics",
    "routers",
    "router_lans",
)
WITHOUT_OFFSET = (
    "activity_logs", "alert_push_destinations", "alert_rules", "alerts", "historical_locations",
    "net_device_signal_samples", "net_device_usage_samples", "router_alerts",
    "router_state_samples", "router_stream_usage_samples",
)  # fmt: skip
REQUIRED = {
    "batteries": ("router", "router__in"),
    "historical_locations": ("router",),
    "net_device_signal_samples": ("net_device", "net_device__in"),
    "net_device_usage_samples": ("net_device", "net_device__in"),
    "router_state_samples": ("router", "router__in"),
    "router_stream_usage_samples": ("router", "router__in"),
    "router_logs": ("router",),
}


def with_filter(service: Service, name: str) -> str:
    """Return the start of a query with the filter that the endpoint requires."""
    if name not in REQUIRED:
        return f"{name}/?"
    if name == "batteries":
        return f"batteries/?router__in={','.join(service.router_ids())}&"
    source = (
        "net_devices/?limit=1&type=mdm&id__gt=0" if "net_device" in name else "routers/?limit=1"
    )
    return f"{name}/?{REQUIRED[name][0]}={service.records(source)[0]['id']}&"


@section("Endpoints: General conventions")
@pytest.mark.parametrize("name", OFFSET)
def test_offset_pages_together_hold_every_record_once(service: Service, name):
    query = with_filter(service, name)

    walked = [json.dumps(record) for record in service.walk(f"{query}limit=23")]

    everything = [json.dumps(record) for record in service.walk(f"{query}limit=500")]
    assert walked == everything
    assert len(set(walked)) == len(walked)


@section("Endpoints: General conventions")
@pytest.mark.parametrize("name", [name for name in OFFSET if name != "batteries"])
def test_records_served_are_the_truth(service: Service, name):
    served = list(service.walk(f"{name}/?limit=500"))

    true = service.truth(name)
    keys = ("id", "uuid", "name", "state", "updated_at", "ended_at", "health")
    assert [[r.get(k) for k in keys] for r in served] == [[r.get(k) for k in keys] for r in true]
    assert served


@section("Endpoints: General conventions")
def test_offset_meta_has_limit_offset_next_and_previous(service: Service):
    first = service.page("net_devices/?limit=10")["meta"]
    second = service.page("net_devices/?limit=10&offset=10")["meta"]

    assert (first["limit"], first["offset"], first["previous"]) == (10, 0, None)
    assert first["next"] == f"{HOST}/api/v2/net_devices/?limit=10&offset=10"
    assert (second["limit"], second["offset"]) == (10, 10)
    assert second["previous"] == f"{HOST}/api/v2/net_devices/?limit=10&offset=0"


@section("Endpoints: General conventions")
def test_last_page_has_a_null_next(service: Service):
    assert service.page("products/?limit=500")["meta"]["next"] is None


@section("Endpoints: General conventions")
@pytest.mark.parametrize("start", ["id__gt=0", "id__gte=1"])
def test_next_keeps_the_filters_and_moves_the_cursor(service: Service, start):
    following = service.page(f"routers/?state__in=online,offline&limit=5&fields=id&{start}")["meta"]

    target = following["next"].removeprefix(f"{HOST}/api/v2/routers/?")
    assert re.fullmatch(r"limit=5&state__in=online%2Coffline&fields=id&id__gt=\d+", target)


@section("Limits")
def test_page_holds_20_records_when_no_limit_is_given(service: Service):
    page = service.page("net_devices/")

    assert (len(page["data"]), page["meta"]["limit"]) == (20, 20)


@section("Limits")
def test_limit_above_500_gives_500_records(service: Service):
    page = service.page("alerts/?limit=5000")

    assert (len(page["data"]), page["meta"]["limit"]) == (500, 500)


@section("Limits")
@pytest.mark.parametrize("limit", ["0", "-1", "many", "1.5", "9" * 30])
def test_limit_that_is_not_a_positive_integer_is_refused(service: Service, limit):
    assert is_validation(service.get(f"routers/?limit={limit}"))


@section("Endpoints: General conventions")
@pytest.mark.parametrize("name", ID_PAGED)
def test_id_paging_walks_ascending_from_zero(service: Service, name):
    walked = [int(record["id"]) for record in service.walk(f"{name}/?limit=19&id__gt=0")]

    assert walked == sorted({int(record["id"]) for record in service.truth(name)})


@section("Endpoints: General conventions")
def test_order_of_id_paging_cannot_be_changed(service: Service):
    plain = service.records("routers/?id__gt=0&limit=9")

    assert service.records("routers/?id__gt=0&limit=9&order_by=-name") == plain


@section("Endpoints: General conventions")
@pytest.mark.parametrize("op", ["gt", "gte", "lt", "lte"])
def test_ids_are_compared_as_numbers(service: Service, op):
    ids = sorted(int(i) for i in service.router_ids())
    middle = ids[len(ids) // 2]

    found = [int(r["id"]) for r in service.records(f"routers/?id__{op}={middle}&limit=500")]

    wanted = {"gt": ids[26:], "gte": ids[25:], "lt": ids[:25], "lte": ids[:26]}
    assert sorted(found) == wanted[op]


@section("Endpoints: General conventions")
@pytest.mark.parametrize("name", WITHOUT_OFFSET)
def test_cursor_endpoints_do_not_take_an_offset(service: Service, name):
    query = with_filter(service, name)

    page = service.page(f"{query}limit=2")

    assert set(page["meta"]) == {"limit", "next"}
    assert is_validation(service.get(f"{query}offset=0"))


@section("Observed: Required filters")
@pytest.mark.parametrize("name", sorted(REQUIRED))
def test_missing_required_filter_is_a_conflict(service: Service, name):
    answer = service.get(f"{name}/?limit=5")

    assert complaint(answer) == (409, "validation", "bad or missing data")


@section("Observed: Required filters")
def test_historical_locations_refuse_a_list_of_routers(service: Service):
    two = ",".join(service.router_ids()[:2])

    assert is_validation(service.get(f"historical_locations/?router__in={two}"))


@section("Limits")
def test_more_than_100_values_in_a_filter_are_refused(service: Service):
    values = ",".join(str(number) for number in range(101))

    assert is_validation(service.get(f"routers/?id__in={values}"))
    assert service.get(f"routers/?id__in={values.removesuffix(',100')}").status_code == 200


@section("Limits")
def test_alerts_take_more_than_100_values_in_a_filter(service: Service):
    values = ",".join([*service.router_ids(), *(str(number) for number in range(200))])

    assert len(service.records(f"alerts/?router__in={values}&limit=5")) == 5


@section("Observed: Envelope and values")
@pytest.mark.parametrize(
    "query",
    ["nonsense=1", "state__gt=online", "name__startswith=a", "id=abc", "updated_at__gt=yesterday",
     "order_by=nonsense", "fields=id,nonsense", "expand=nonsense", "reboot_required=maybe"],
)  # fmt: skip
def test_unknown_parameter_or_bad_value_is_a_validation_failure(service: Service, query):
    assert is_validation(service.get(f"routers/?{query}"))


@section("Endpoints: General conventions")
def test_fields_gives_only_the_members_named(service: Service):
    records = service.records("routers/?fields=name,id")

    assert {tuple(record) for record in records} == {("id", "name")}


@section("Observed: Envelope and values")
def test_expand_turns_a_relation_into_an_object_one_level_deep(service: Service):
    router = service.records("routers/?expand=group,account&limit=1&group__isnull=false")[0]

    plain = service.records(f"routers/?id={router['id']}")[0]
    assert router["group"]["id"] == last_segment(plain["group"])
    assert router["account"]["id"] == last_segment(plain["account"])
    assert isinstance(router["group"]["account"], str)


@section("Endpoints: General conventions")
@pytest.mark.parametrize("name", OFFSET)
def test_every_relation_leads_to_a_record_of_the_list_it_names(service: Service, name):
    relations = {
        column.name: column.to
        for column in RESOURCES[name].columns
        if column.kind is ColumnKind.RELATION and column.to in OFFSET and not column.part
    }

    for relation, to in relations.items():
        records = service.truth(name)
        named = {last_segment(record[relation]) for record in records if record[relation]}
        assert named <= {str(record["id"]) for record in service.truth(to)}, relation


@section("Endpoints: Other v2 endpoints")
def test_a_router_runs_the_newest_version_of_the_app_it_has(service: Service):
    versions = {record["id"]: record for record in service.truth("device_app_versions")}
    newest: dict[str, str] = {}
    for record in versions.values():
        newest[record["app"]] = max(newest.get(record["app"], ""), record["version"])
    apps = service.truth("device_apps")

    states = service.truth("device_app_states")
    bindings = service.truth("device_app_bindings")

    run = [versions[last_segment(record["app_version"])] for record in (*states, *bindings)]
    assert states
    assert {version["app"] for version in run[: len(states)]} == {apps[0]["resource_url"]}
    assert [version["app"] for version in run[len(states) :]] == [a["resource_url"] for a in apps]
    assert [version["version"] for version in run] == [newest[v["app"]] for v in run]


@section("Observed: Envelope and values")
def test_expand_of_a_null_relation_stays_null(service: Service):
    orphans = service.records("net_devices/?router__isnull=true&expand=router")

    assert orphans
    assert {record["router"] for record in orphans} == {None}


@section("Endpoints: General conventions")
@pytest.mark.parametrize("name", [name for name in OFFSET if name != "batteries"])
def test_one_record_can_be_read_by_its_key(service: Service, name):
    record = service.records(f"{name}/?limit=3")[-1]

    key = record.get("id") or record["uuid"]
    assert service.page(f"{name}/{key}/") == record


@section("Endpoints: General conventions")
def test_one_record_can_be_read_with_chosen_fields_and_relations(service: Service):
    [router] = service.records("routers/?limit=1&group__isnull=false")

    record = service.page(f"routers/{router['id']}/?fields=id,group&expand=group")

    assert record.keys() == {"id", "group"}
    assert record["group"]["id"] == last_segment(router["group"])
    assert service.get(f"routers/{router['id']}/?fields=nonsense").status_code == 409


@section("Errors")
@pytest.mark.parametrize(
    "path", ["nonsense/", "routers/1/", "routers/x/", "alerts/1/", "routers/1/2/"]
)
def test_unknown_path_or_record_is_not_found(service: Service, path):
    assert complaint(service.get(path)) == (404, "error", "not found")


@section("Errors")
@pytest.mark.parametrize(
    ("method", "path"), [("DELETE", "alerts/"), ("POST", "routers/"), ("PATCH", "accounts/10157/")]
)
def test_method_not_allowed_names_path_and_method(service: Service, method, path):
    answer = service.write(method, path)

    assert complaint(answer) == (405, "error", "method not allowed")
    assert answer.json()["errors"] == [{"path": f"/api/v2/{path}"}, {"method": method}]


@section("Errors")
def test_malformed_json_is_a_server_error_with_the_text_of_the_parser(fresh: Service):
    answer = fresh.ask("POST", "/api/v2/users/", content=b'{"email": ')

    status, kind, message = complaint(answer)
    assert (status, kind) == (500, "server_error")
    assert message
    assert answer.json()["errors"] == []


@section("Resources: Conventions")
@pytest.mark.parametrize(
    "name", [name for name in OFFSET if name not in ("failovers", "batteries")]
)
def test_ids_are_strings_of_digits(service: Service, name):
    assert all(re.fullmatch(r"\d+", record["id"]) for record in service.records(f"{name}/"))


@section("Observed: Envelope and values")
def test_ids_in_failovers_are_numbers(service: Service):
    for record in service.records("failovers/?limit=50"):
        assert isinstance(record["router_id"], int)
        assert isinstance(record["account_id"], int)
        assert record["group_id"] is None or isinstance(record["group_id"], int)


@section("Resources: Conventions")
@pytest.mark.parametrize(
    "name", ["accounts", "groups", "routers", "net_devices", "locations", "users"]
)
def test_resource_url_leads_to_the_record(service: Service, name):
    record = service.records(f"{name}/")[0]

    path = record["resource_url"].removeprefix(f"{HOST}/api/v2/")
    assert service.page(path) == record


@section("Observed: Envelope and values")
def test_one_account_appears_under_several_hosts(service: Service):
    urls = {record["account"] for record in service.records("routers/?limit=500")}

    by_account = {last_segment(url) for url in urls}
    assert {url.split("/")[2] for url in urls} == {"service.test", "us0.service.test"}
    assert len(urls) > len(by_account)


@section("Observed: Envelope and values")
def test_service_writes_timestamps_in_three_formats(service: Service):
    router = service.router_ids()[1]
    pages = [service.get("alerts/?limit=9").text, service.get("routers/").text]
    pages.append(service.get(f"historical_locations/?router={router}").text)

    text = "".join(pages)

    day = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d"
    for time_format in (rf"{day}\.\d{{6}}\+00:00", rf"{day}\+00:00", rf"{day}\.\d{{6}}Z"):
        assert re.search(f'"{time_format}"', text)


@section("Observed: Envelope and values")
def test_filter_without_a_zone_means_utc(service: Service):
    utc = service.records("routers/?updated_at__gt=2026-06-10T00:00:00%2b00:00&limit=500")

    assert utc == service.records("routers/?updated_at__gt=2026-06-10T00:00:00&limit=500")
    assert 0 < len(utc) < 50
    assert all(instant(record["updated_at"]).isoformat() > "2026-06-10" for record in utc)


@section("Resources: Conventions")
def test_plus_sign_that_is_not_escaped_is_refused(service: Service):
    assert is_validation(service.get("routers/?updated_at__gt=2026-06-10T00:00:00+00:00"))


@section("Observed: Envelope and values")
@pytest.mark.parametrize("name", ["routers", "configuration_managers"])
def test_some_strings_hold_raw_control_characters(make_service, name):
    page = make_service(routers=160, days=1).get(f"{name}/?limit=500").text

    with pytest.raises(json.JSONDecodeError, match="Invalid control character"):
        json.loads(page)
    assert json.loads(page, strict=False)


@section("Deprecations")
@pytest.mark.parametrize("name", ["overlay_network_bindings", "forwarding_lan_details"])
def test_deprecated_endpoints_fail(service: Service, name):
    assert service.get(f"{name}/").status_code == 404


@section("Deprecations")
def test_deprecated_fields_are_still_sent_or_inaccurate(service: Service):
    bindings = [router["overlay_network_binding"] for router in service.records("routers/")]
    assert {url and url.split("/")[-3] for url in bindings} == {None, "overlay_network_bindings"}
    wired = service.records("net_devices/?limit=500&type=ethernet&is_upgrade_supported=false")
    assert any(device["is_upgrade_available"] for device in wired)


@section("Observed: Rates and failures")
def test_calls_past_the_minute_limit_are_refused_with_429(fresh: Service):
    fresh.ask("PUT", "/sim/faults", json={"limit_per_minute": 3})

    answers = [fresh.get("products/") for _ in range(6)]

    assert [answer.status_code for answer in answers] == [200, 200, 200, 429, 429, 429]
    assert {"retry-after" in answer.headers for answer in answers[3:]} == {True, False}


@section("Observed: Envelope and values")
def test_relations_of_a_router_whose_url_ends_in_a_name_can_be_read(service: Service):
    for router in service.records("routers/?limit=20"):
        urls = [router[name].split("/api/v2/")[1] for name in ("configuration_manager", "lans")]
        assert urls == [f"routers/{router['id']}/{n}/" for n in ("configuration_manager", "lans")]
        [manager] = service.records(f"configuration_managers/?router={router['id']}")
        assert service.page(urls[0]) == manager
        assert service.records(urls[1]) == service.records(f"router_lans/?router={router['id']}")


@section("Observed: Envelope and values")
@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "routers/1/lans/", 404),
        ("GET", "routers/1/configuration_manager/", 404),
        ("GET", "routers/ID/modems/", 404),
        ("GET", "groups/1/lans/", 404),
        ("GET", "routers/ID/lans/1/", 404),
        ("PATCH", "routers/ID/configuration_manager/", 405),
        ("DELETE", "routers/ID/lans/", 405),
    ],
)
def test_other_paths_below_a_record_are_refused(service: Service, method, path, status):
    router = service.records("routers/?limit=1")[0]["id"]

    assert service.ask(method, f"/api/v2/{path.replace('ID', router)}").status_code == status
