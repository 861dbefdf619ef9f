"""Licences of devices through moves and regrades, compared with what the service has assigned."""

from collections import defaultdict
from datetime import datetime, timedelta

import pytest

from fleetlake.lake import open_lake
from fleetlake.marts import build_marts
from tests.support.sim import Sim, new_sim

pytestmark = pytest.mark.xdist_group("marts")

LOADED = (
    *("accounts", "groups", "routers", "alerts", "locations"),
    *("asset_endpoints", "asset_endpoint_subscriptions", "subscriptions"),
)


def rows(sim: Sim, sql: str) -> list[tuple]:
    with open_lake(sim.settings().lake, read_only=True) as lake:
        return lake.rows(sql)


def assigned(sim: Sim) -> set[tuple]:
    """Return each router with each of its licences, as the service has them; None for none."""
    kinds = {
        one["id"]: (
            one["relationships"]["subscription_type"]["data"]["id"],
            datetime.fromisoformat(one["attributes"]["end_time"]),
        )
        for one in sim.truth("asset_endpoint_subscriptions")
    }
    routers = {one["mac"].replace(":", ""): int(one["id"]) for one in sim.truth("routers")}
    found = set()
    for asset in sim.truth("asset_endpoints"):
        router = routers[asset["attributes"]["mac_address"]]
        ids = [one["id"] for one in asset["relationships"]["subscriptions"]["data"]]
        found |= {(router, one, *kinds[one]) for one in ids} or {(router, None, None, None)}
    return found


def test_licences_are_those_that_the_service_has_assigned_after_moves_and_regrades(tmp_path):
    sim = new_sim(tmp_path, routers=16, days=1)
    seen = []
    for hours in (0, 36, 60):
        sim.advance(hours * 3600)
        sim.ingest(*LOADED)
        seen.append({(router, one) for router, one, *_ in assigned(sim)})
    build_marts(sim.settings().lake, select="+licences")  # a table: each build makes it anew
    now = datetime.fromisoformat(sim.ask("GET", "/sim/state").json()["now"])
    states = {
        (router, one, "unlicensed" if end is None else "ended" if end < now else "licensed")
        for router, one, _, end in assigned(sim)
    }

    found = rows(sim, "select router_id, assignment_id, licence, ends_at from marts.licences")
    stated = rows(sim, "select router_id, assignment_id, licence_state from marts.licences")

    assert seen[0] != seen[1] != seen[2]
    assert len(found) == len({*found})
    assert {*found} == assigned(sim)
    assert {*stated} == states
    assert {state for *_, state in stated} == {"licensed", "ended", "unlicensed"}


def test_attention_names_licences_that_end_within_90_days_and_devices_without_one(tmp_path):
    sim = new_sim(tmp_path, routers=60, days=1)
    sim.ingest(*LOADED)
    build_marts(sim.settings().lake, select="+attention")
    [(now,)] = rows(sim, "select max(as_of_at) from marts.attention")
    soon, later = now - timedelta(days=30), now + timedelta(days=90)
    expected = {
        (router, one, "urgent" if left.days < 5 else "soon" if left.days < 30 else "watch")
        for router, one, _, end in assigned(sim)
        if end is not None and soon <= end <= later
        for left in [end - now]
    }
    newest: dict[int, list[datetime]] = defaultdict(list)
    for router, _, _, end in assigned(sim):
        newest[router] += [end] if end else []
    without = {router for router, ends in newest.items() if max(ends, default=soon) <= soon}

    found = rows(
        sim,
        "select router_id, attention_id.replace('licence ', ''), severity from marts.attention"
        " where reason = 'licence' and attention_id not like 'licence device %'",
    )
    unlicensed = rows(
        sim,
        "select router_id, severity, since_at from marts.attention"
        " where attention_id like 'licence device %'",
    )

    assert {*found} == expected
    assert {severity for *_, severity in found} == {"urgent", "soon", "watch"}
    assert sorted(unlicensed) == [
        (router, "soon", max(newest[router], default=None)) for router in sorted(without)
    ]
    assert len(without) > 1
