"""Calls of v3 that published clients make: each gets the answer that it was written for."""

import httpx
import pytest

from tests.simulator.sections import section
from tests.support.service import Service

HEADERS = {
    "Authorization": "Bearer simulator-token",
    "Accept": "application/vnd.api+json",
    "Content-Type": "application/vnd.api+json",
}


def ask(service: Service, path: str) -> httpx.Response:
    return service.ask("GET", f"/api/v3/{path}", headers=HEADERS)


LISTS = {
    "asset_endpoints": "mac_address",
    "asset_endpoints/regrades": "action_id",
    "subscriptions": "name",
    "beta/users": "email",
    "beta/account_authorizations": "role",
    "beta/exchange_sites": "local_domain",
    "beta/exchange_resources": "name",
    "beta/private_cellular_networks": "name",
    "beta/private_cellular_sims": "iccid",
    "beta/public_sim_mgmt_assets": "iccid",
    "beta/public_sim_mgmt_rate_plans": "carrier",
}


@section("Observed: v3")
@pytest.mark.parametrize("path", LISTS)
def test_v3_list_is_ordered_filtered_and_cut_as_asked(service: Service, path: str):
    name = LISTS[path]
    answers = [ask(service, f"{path}?sort={sign}{name}").json()["data"] for sign in ("", "-")]
    sorted_, reverse = ([one["attributes"][name] for one in data] for data in answers)
    one = ask(service, f"{path}?page[size]=1").json()["data"][0]
    by_id = ask(service, f"{path}?filter[id]={one['id']}").json()["data"]
    cut = ask(service, f"{path}?filter[fields]={name}&page[size]=1").json()["data"]
    single = ask(service, f"{path}/{one['id']}").json()["data"]

    assert sorted_ == sorted(sorted_)
    assert reverse == sorted(reverse, reverse=True)
    assert by_id == [one] == [single]
    assert cut[0]["attributes"] == {name: one["attributes"][name]}
