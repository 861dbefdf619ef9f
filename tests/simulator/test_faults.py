import json
import re
from collections.abc import Iterable
from typing import Any

import httpx
import pytest

from tests.simulator.sections import section
from tests.support.service import BEARER, Service, keys


def switch(service: Service, **wanted) -> None:
    answer = service.ask("PUT", "/sim/faults", json=wanted)
    assert answer.status_code == 200, answer.text


@section("Observed: Rates and failures")
def test_500_is_a_short_text(fresh: Service):
    switch(fresh, status_500=1)

    answer = fresh.get("routers/")

    assert (answer.status_code, answer.text) == (500, "internal error shard-router-3")
    assert answer.headers["content-type"].startswith("text/plain")


@section("Observed: Rates and failures")
def test_some_429_responses_have_retry_after(fresh: Service):
    switch(fresh, status_429=1)

    answers = [fresh.get("routers/") for _ in range(20)]

    assert {answer.status_code for answer in answers} == {429}
    assert {"retry-after" in answer.headers for answer in answers} == {True, False}


@section("Simulator: faults")
@pytest.mark.parametrize(
    ("fault", "error"), [("reset", httpx.ReadError), ("truncate", httpx.RemoteProtocolError)]
)
def test_a_broken_connection_raises_in_process_what_a_client_would_see(
    fresh: Service, fault, error
):
    switch(fresh, **{fault: 1})

    with pytest.raises(error):
        fresh.get("routers/")


@section("Simulator: faults")
def test_response_with_status_200_can_be_html_or_have_no_list(fresh: Service):
    switch(fresh, html=1)
    page = fresh.get("routers/")
    switch(fresh, html=0, no_data=1)
    listless = fresh.get("routers/")

    assert (page.status_code, page.headers["content-type"][:9]) == (200, "text/html")
    assert listless.status_code == 200
    assert "data" not in listless.json()


@section("Simulator: faults")
def test_faults_occur_at_their_rate_and_are_the_same_for_one_seed(make_service):
    runs = []
    for _ in range(2):
        service = make_service()
        switch(service, status_500=0.3)
        runs.append([service.get("products/").status_code for _ in range(100)])

    assert runs[0] == runs[1]
    assert 20 < runs[0].count(500) < 40


@section("Simulator: faults")
def test_faults_do_not_change_the_fleet(make_service):
    calm, flaky = make_service(), make_service(scenario="flaky")
    switch(flaky, scenario=None)

    assert calm.get("alerts/?limit=500").content == flaky.get("alerts/?limit=500").content


@section("Simulator: faults")
@pytest.mark.parametrize(
    "wanted",
    [{"reset": 2}, {"reset": -1}, {"nonsense": 1}, {"scenario": "x"}, {"limit_per_minute": "9"}],
)
def test_unknown_fault_or_bad_rate_is_refused_and_changes_nothing(fresh: Service, wanted):
    before = fresh.state()

    answer = fresh.ask("PUT", "/sim/faults", json={"status_500": 0.5, **wanted})

    assert answer.status_code in (400, 409)
    assert fresh.state()["faults"] == before["faults"]


@section("Simulator: scenarios")
@pytest.mark.parametrize(
    ("name", "expected"),
    [("flaky", {"reset": 0.02}), ("slow", {"latency_ms": 400}), ("late-data", {}), ("poison", {})],
)
def test_scenario_can_be_started_with_or_switched_to(make_service, name, expected):
    started, switched = make_service(scenario=name), make_service()
    switch(switched, scenario=name)

    states = [one.state() for one in (started, switched)]

    assert [state["scenario"] for state in states] == [name, name]
    assert all(state["faults"].items() >= expected.items() for state in states)


@section("Simulator: scenarios")
def test_unknown_scenario_does_not_start(make_service):
    with pytest.raises(ValueError, match="flaky"):
        make_service(scenario="nonsense")


@section("Simulator: scenarios")
def test_rate_limited_scenario_refuses_the_121st_call(make_service):
    service = make_service(scenario="rate-limited")

    statuses = [service.get("products/?limit=1").status_code for _ in range(121)]

    assert (statuses.count(200), statuses[-1]) == (120, 429)


@section("Simulator: scenarios")
def test_late_data_appears_up_to_a_quarter_hour_late(make_service):
    service = make_service(scenario="late-data", routers=300, days=1)
    uuids = [a["created_at_timeuuid"] for a in service.walk("alerts/?limit=500")]
    missing = {a["created_at_timeuuid"] for a in service.truth("alerts")} - set(uuids)

    service.advance(minutes=17)

    now = {a["created_at_timeuuid"] for a in service.walk("alerts/?limit=500")}
    assert len(missing) > 5
    assert missing <= now


@section("Simulator: scenarios")
def test_drifting_schema_adds_members_and_changes_types(make_service):
    service = make_service(scenario="schema-drift")

    records = service.records("net_device_metrics/?limit=500")

    assert all("service_tier" in record for record in records)
    assert {type(record["bytes_in"]) for record in records} == {int, str}


@section("Simulator: scenarios")
def test_poison_breaks_some_records_and_leaves_the_rest_intact(make_service):
    poisoned = make_service(scenario="poison", routers=300).records("alerts/?limit=500")
    plain = make_service(routers=300).records("alerts/?limit=500")

    broken = [
        number
        for number, pair in enumerate(zip(poisoned, plain, strict=True))
        if pair[0] != pair[1]
    ]
    kinds = {json.dumps(poisoned[number])[:8] for number in broken}
    assert 2 <= len(broken) <= 30
    assert len(kinds) > 1


@section("Simulator: scenarios")
def test_one_value_in_eight_is_hostile_in_lists_and_in_the_truth(make_service):
    hostile, plain = make_service(scenario="hostile-values", routers=90), make_service(routers=90)

    def counts(records: Iterable[dict[str, Any]]) -> dict[str, int | None]:
        return {record["id"]: record["bytes_in"] for record in records}

    found = counts(hostile.walk("net_device_metrics/?limit=500"))

    usual = counts(plain.truth("net_device_metrics"))
    changed = {count for key, count in found.items() if count != usual[key]}
    assert found.keys() == usual.keys()
    assert found == counts(hostile.truth("net_device_metrics"))
    assert changed == {2**63 - 1, -(2**63), 2**40, -(2**40), -1}
    assert 1 / 16 < sum(found[key] != usual[key] for key in found) / len(found) < 1 / 4


@section("Simulator: scenarios")
def test_shard_hosts_spread_relations_over_regions(make_service):
    service = make_service(scenario="shard-hosts")

    hosts = {
        r["account"].split("/")[2].split(".")[0] for r in service.records("routers/?limit=500")
    }

    assert hosts == {"service", "us0", "us2", "eu4", "au5"}


@section("Simulator: scenarios")
def test_shard_hosts_give_every_url_another_host_at_the_next_read(make_service):
    service = make_service(scenario="shard-hosts")
    paths = ["/api/v2/routers/?limit=3", "/api/v2/firmwares/?limit=3", "/api/v3/beta/users"]

    def urls(path: str) -> list[str]:
        headers = BEARER if "v3" in path else keys()
        body = service.ask("GET", path, headers=headers).json()
        return re.findall(r'"(http[^"]+)"', json.dumps(body["data"]))

    for path in paths:
        first, second = urls(path), urls(path)
        assert all(a != b for a, b in zip(first, second, strict=True))
        assert [u.split("/api/")[1] for u in first] == [u.split("/api/")[1] for u in second]
