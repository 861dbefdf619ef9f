"""Lists that a project describes, loaded from a simulator of the same files: what loads promise.

The project has a list of every sort, and the lists that fleetlake describes and leaves off.
"""

import os
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from fleetlake.decoding.values import read_value
from fleetlake.endpoints import ENDPOINTS, forget_own, optional_lists, shipped_lists
from fleetlake.endpoints.columns import Column, Kind
from fleetlake.endpoints.model import Endpoint, Mode
from fleetlake.lake import Lake, open_lake
from fleetlake.loading.ingest import raise_worst
from tests.support.processes import DESCRIBED, OPTIONAL, own_project
from tests.support.sim import NOW, Sim, copied, loaded_sim
from tests.test_load import flaws, key_of, member

FLAKY = {"scenario": "flaky"}
DRIFT, LATE = {"scenario": "schema-drift"}, {"scenario": "late-data"}
OF_EACH_SORT = ("depots", "visits", "readings", "badges", "audits", "outings", "vaults", "lockers")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Run the module in a project with these lists; each test reads its files anew."""
    folder, before = tmp_path_factory.mktemp("project"), Path.cwd()
    own_project(folder, DESCRIBED, *OPTIONAL.glob("*.toml"))
    os.chdir(folder)
    forget_own()
    yield folder
    os.chdir(before)
    forget_own()


@pytest.fixture(scope="module")
def loaded(project: Path, empty_lake: Path) -> Sim:
    names = [name for name in ENDPOINTS if name not in shipped_lists()]
    return loaded_sim(project, empty_lake, "routers", *names, **fleet(project))


def fleet(project: Path) -> dict[str, Any]:
    return {"routers": 8, "days": 2, "endpoints": (project / "endpoints",)}


def own() -> list[Endpoint]:
    return [row for name, row in ENDPOINTS.items() if name not in shipped_lists()]


def rows_of(lake: Lake, endpoint: Endpoint) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    """Return the rows of a raw table by key; of a history, those that are current."""
    names = [*endpoint.key, *(column.name for column in compared(endpoint))]
    current = "where valid_to is null" if endpoint.mode is Mode.HISTORY else ""
    listed = ", ".join(f'"{name}"' for name in names)
    found = lake.rows(f"select {listed} from raw.{endpoint.name} {current}")
    return {row[: len(endpoint.key)]: row[len(endpoint.key) :] for row in found}


def compared(endpoint: Endpoint) -> list[Column]:
    """Return the columns whose values do not vary with the host that was asked."""
    return [column for column in endpoint.columns if column.name != "links_self"]


def stored(kind: Kind, value: Any) -> Any:
    """Return a value as a query returns it."""
    return datetime.fromisoformat(value) if kind is Kind.TIME and value else value


def expected(endpoint: Endpoint, record: dict[str, Any]) -> tuple[Any, ...]:
    """Return the values that a record of the truth should have in the lake."""
    stamped = endpoint.fan_out.partition if endpoint.fan_out and endpoint.fan_out.is_stamped else ""
    return tuple(
        int(record["_device"])
        if column.name == stamped
        else stored(column.kind, read_value(column.kind, member(record, column.path)))
        for column in compared(endpoint)
    )


@pytest.mark.proof
def test_each_described_list_is_loaded_with_each_value_of_each_record(loaded: Sim):
    assert {*optional_lists()} < {row.name for row in own()}
    different = {}
    with open_lake(loaded.settings().lake, read_only=True) as lake:
        found = {endpoint.name: rows_of(lake, endpoint) for endpoint in own()}
    for endpoint in own():
        rows = found[endpoint.name]
        truth = {key_of(endpoint, record): record for record in loaded.truth(endpoint.name)}
        wanted = {key: expected(endpoint, truth[key]) for key in rows}
        assert len(rows) > 20, endpoint.name
        if rows != wanted:
            different[endpoint.name] = [
                (rows[key], wanted[key]) for key in rows if rows[key] != wanted[key]
            ][:2]

    assert different == {}
    assert flaws(loaded, own()) == {}


@pytest.mark.proof
def test_unknown_members_of_a_list_without_known_fields_are_kept(loaded: Sim):
    with open_lake(loaded.settings().lake, read_only=True) as lake:
        found = lake.rows("select id, _extra->>'attributes'->>'name' from raw.lan_clients")

    truth = loaded.truth("lan_clients")
    assert sorted(found) == sorted((one["id"], one["attributes"]["name"]) for one in truth)


@pytest.mark.release
def test_own_lists_of_a_service_that_breaks_drifts_and_is_late_lose_and_double_nothing(
    loaded: Sim, project: Path, tmp_path: Path
):
    sim = copied(loaded, tmp_path, **fleet(project))
    rows = [ENDPOINTS[name] for name in OF_EACH_SORT]
    passed = timedelta()
    for hours, faults in ((7, FLAKY), (20, DRIFT), (7, LATE), (7, {"scenario": None})):
        passed += timedelta(hours=hours)
        sim.advance(hours * 3600)
        sim.faults(**faults)
        outcomes = sim.ingest("routers", *OF_EACH_SORT)

    raise_worst(outcomes)
    assert flaws(sim, rows, NOW + passed) == {}
