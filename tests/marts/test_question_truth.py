"""Answers of QUESTIONS.md compared with what the simulator served, counted here without SQL."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.conftest import Sim, new_sim
from tests.marts.test_questions import QUESTIONS

from fleetlake.lake import Lake, open_lake
from fleetlake.marts import build_marts

pytestmark = [pytest.mark.proof, pytest.mark.xdist_group("question truth")]

SQL = dict(QUESTIONS)
Rows = list[tuple[Any, ...]]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Sim, Lake]]:
    """Return a loaded and built fleet with the shapes of the live service, and its open lake."""
    sim = new_sim(tmp_path_factory.mktemp("questions"), routers=8, seed=3, scenario="live-shapes")
    assert [outcome.error for outcome in sim.ingest() if outcome.error] == []
    build_marts(sim.settings().lake)
    with open_lake(sim.settings().lake, read_only=True) as lake:
        yield sim, lake


def _id_of(url: str) -> int:
    return int(url.rstrip("/").rpartition("/")[2])


def _count(counted: Counter[Any]) -> Rows:
    return sorted(counted.items())


def _names(sim: Sim, resource: str) -> dict[int, str]:
    return {int(record["id"]): record["name"] for record in sim.truth(resource)}


def _per_device(member: str, resource: str = "") -> Callable[[Sim], Rows]:
    """Count the devices by a member, or by the name of the record that it refers to."""

    def truth(sim: Sim) -> Rows:
        names = _names(sim, resource) if resource else {}
        values = (device[member] for device in sim.truth("routers"))
        return _count(Counter(names[_id_of(v)] if resource and v else v for v in values))

    return truth


def _named_where(member: str) -> Callable[[Sim], Rows]:
    return lambda sim: sorted((d["name"],) for d in sim.truth("routers") if d[member])


def _weakest_5g(sim: Sim) -> Rows:
    weakest: dict[int, float] = {}
    for sample in sim.truth("net_device_signal_samples"):
        if sample.get("rsrp5g") is not None:
            device, value = _id_of(sample["net_device"]), float(sample["rsrp5g"])
            weakest[device] = min(weakest.get(device, value), value)
    return sorted(weakest.items())


def _interfaces(sim: Sim) -> Rows:
    listed = sim.truth("net_devices")
    return sorted((_id_of(one["router"]), int(one["id"])) for one in listed if one["router"])


TRUTH: dict[str, Callable[[Sim], Rows]] = {
    "How many devices are online, and how many offline?": _per_device("state"),
    "How many devices does each account have?": _per_device("account", "accounts"),
    "How many devices does each group have?": _per_device("group", "groups"),
    "How many devices of each product are there?": _per_device("product", "products"),
    "Which devices have a firmware upgrade pending?": _named_where("upgrade_pending"),
    "Which routers failed over, and how often?": lambda sim: _count(
        Counter(int(one["router_id"]) for one in sim.truth("failovers"))
    ),
    "How much data went over backups?": lambda sim: [
        (sum(one["data_usage"] for one in sim.truth("failovers")),)
    ],
    "Which was the weakest 5G signal of each modem?": _weakest_5g,
    "How many alerts of each type were there?": lambda sim: _count(
        Counter(one["type"] for one in sim.truth("alerts"))
    ),
    "Which modems and ports does each router have?": _interfaces,
}


@pytest.mark.parametrize("question", TRUTH)
def test_the_answer_is_what_the_simulator_served(fleet, question):
    sim, lake = fleet

    truth = TRUTH[question](sim)

    assert truth
    assert lake.rows(SQL[question]) == truth
