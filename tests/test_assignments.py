"""To-many relationships of v3: each id is kept, and what it means is read by asking for it."""

import json
from pathlib import Path
from typing import Any

import pytest

from fleetlake.decoding.arrow import EXTRA, read_page
from fleetlake.decoding.records import reader_of
from fleetlake.endpoints import ENDPOINTS
from fleetlake.endpoints.relations import Thing
from fleetlake.lake import open_lake
from fleetlake.lake.erasure import count_rows
from fleetlake.lake.erasure_plan import plan_erasure
from fleetlake.loading.ingest import raise_worst
from fleetlake.loading.verify import verify
from tests.support.sim import NOW, Sim, new_sim

ASSETS, ASSIGNMENTS = "asset_endpoints", "asset_endpoint_subscriptions"
CORES = ENDPOINTS["private_cellular_cores"]
HOUR = 3600


@pytest.fixture
def sim(tmp_path: Path) -> Sim:
    """Return a service with sixteen routers: some assignments move, some are regraded."""
    return new_sim(tmp_path, routers=16, days=1)


def rows(sim: Sim, sql: str) -> list[tuple[Any, ...]]:
    with open_lake(sim.settings().lake, read_only=True) as lake:
        return lake.rows(sql)


def pairs(sim: Sim) -> set[tuple[str, str]]:
    """Return each device with each of its assignments, as the service has them."""
    return {
        (asset["id"], link["id"])
        for asset in sim.truth(ASSETS)
        for link in asset["relationships"]["subscriptions"]["data"]
    }


def test_assignments_are_as_the_service_has_them_after_each_move_and_regrade(sim: Sim) -> None:
    seen = set()
    for hours in (0, 36, 36, 60):
        sim.advance(hours * HOUR)
        raise_worst(sim.ingest(ASSETS, ASSIGNMENTS, "subscriptions"))

        listed = "unnest(json_extract_string({}, '$[*]')) from raw.asset_endpoints"
        for column in ("subscriptions_ids", "subscription_ids"):
            sql = f"select id, {listed.format(column)} where valid_to is null"
            assert set(rows(sim, sql)) == pairs(sim)
        current = "id, name, subscription_type_id, (end_time::varchar)[:10]"
        sql = f"select {current} from raw.{ASSIGNMENTS} where valid_to is null"
        assert sorted(rows(sim, sql)) == sorted(
            (
                one["id"],
                one["attributes"]["name"],
                one["relationships"]["subscription_type"]["data"]["id"],
                one["attributes"]["end_time"][:10],
            )
            for one in sim.truth(ASSIGNMENTS)
        )
        seen |= {id_ for _, id_ in pairs(sim)}
    assert {id_ for (id_,) in rows(sim, f"select id from raw.{ASSIGNMENTS}")} == seen
    assert len(seen) > len(pairs(sim))  # regraded ones have ended
    own = {item["id"] for item in sim.truth("subscriptions")}
    assert {id_ for (id_,) in rows(sim, "select id from raw.subscriptions")} == own
    assert rows(sim, "select member from meta.schema_drift") == []


def test_a_second_load_changes_nothing_and_its_calls_count_apart(sim: Sim) -> None:
    raise_worst(sim.ingest(ASSETS, ASSIGNMENTS, "subscriptions"))

    again = {o.endpoint: o for o in sim.ingest(ASSETS, ASSIGNMENTS, "subscriptions")}

    assert {(o.added, o.changed, o.error) for o in again.values()} == {(0, 0, None)}
    assert {name: o.calls for name, o in again.items()} == dict.fromkeys(again, 1)
    assert verify(sim.settings(), ASSIGNMENTS, start=NOW, transport=sim.transport).missing == set()


@pytest.mark.parametrize(
    ("data", "id_", "extra"),
    [
        ({"type": "n", "id": "net-1"}, "net-1", None),
        ([{"type": "n", "id": "net-1"}], "net-1", None),
        (
            [{"type": "n", "id": "net-1"}, {"type": "n", "id": "net-2"}],
            None,
            [{"type": "n", "id": "net-1"}, {"type": "n", "id": "net-2"}],
        ),
        (None, None, None),
    ],
    ids=["one", "a list of one", "a list of two", "none"],
)
def test_a_to_one_relationship_that_is_sent_as_a_list_loses_no_id(
    data: Any, id_: str | None, extra: Any
) -> None:
    record = {"type": CORES.name, "id": "c", "attributes": {"name": "a", "state": "b"}}
    record |= {"relationships": {"network": {"data": data}}}

    page = read_page(CORES, json.dumps({"data": [record], "links": {"next": None}}).encode())

    [left] = page.rows.column(EXTRA).to_pylist()
    assert page.rows.column("network_id").to_pylist() == [id_]
    assert (left and json.loads(left)) == (
        extra and {"relationships": {"network": {"data": extra}}}
    )


def test_the_quick_reader_reads_to_many_relationships_and_their_order_means_nothing() -> None:
    assets = ENDPOINTS[ASSETS]
    found = []
    for ids in (["b", "a"], ["a", "b"]):
        links = [{"type": "subscriptions", "id": id_} for id_ in ids]
        record = {"type": ASSETS, "id": "1", "attributes": {"subscription_ids": ids}}
        record |= {"relationships": {"subscriptions": {"data": links}}}
        body = json.dumps({"data": [record], "links": {"next": None}}).encode()
        found.append(reader_of(assets).fast(body).values)
    assert found[0] == found[1]
    assert found[0]["subscriptions_ids"] == found[0]["subscription_ids"] == ['["a","b"]']


def test_assignments_of_an_erased_device_go_and_those_that_moved_to_another_stay(sim: Sim) -> None:
    raise_worst(sim.ingest(ASSETS, ASSIGNMENTS, "routers"))
    before = dict_of(pairs(sim))
    sim.advance(36 * HOUR)
    raise_worst(sim.ingest(ASSETS, ASSIGNMENTS, "routers"))
    after = dict_of(pairs(sim))
    kept = {id_ for ids in after.values() for id_ in ids}
    mover = next(asset for asset in after if before.get(asset, set()) & kept - after[asset])
    assets = {a["id"]: a["attributes"]["mac_address"] for a in sim.truth(ASSETS)}
    [router] = [
        int(r["id"])
        for r in sim.truth("routers")
        if r["mac"].replace(":", "").upper() == assets[mover]
    ]

    with open_lake(sim.settings().lake) as lake:
        plan = plan_erasure(lake, [(Thing.ROUTER, router)])
        others = {id_ for asset, ids in after.items() if asset != mover for id_ in ids}
        assert count_rows(lake, plan)[f"raw.{ASSIGNMENTS}"] == len(
            (before[mover] | after[mover]) - others
        )


def dict_of(found: set[tuple[str, str]]) -> dict[str, set[str]]:
    return {asset: {id_ for one, id_ in found if one == asset} for asset, _ in found}
