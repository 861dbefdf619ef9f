"""An export of a table that lost a file: it follows the repair, and what returns is there once."""

from pathlib import Path
from typing import Any

import pytest

from fleetlake.endpoints import ENDPOINTS
from fleetlake.exporters import TARGETS
from fleetlake.exporters.export import Exported, export
from fleetlake.lake import open_lake
from fleetlake.lake.attach import FILES
from fleetlake.loading.repair import plan_repair, read_again, repair
from tests.exporters.targets import OPENERS, OpenedTarget
from tests.support.sim import NOW, Sim
from tests.test_load import SETTLE, key_of

SAMPLES = ENDPOINTS["router_state_samples"]

pytestmark = pytest.mark.xdist_group("processes")


def exported(sim: Sim, target: OpenedTarget) -> Exported:
    with open_lake(sim.settings().lake) as lake:
        [done] = export(lake, TARGETS[target.name], target.address, [f"raw.{SAMPLES.name}"])
    return done


def keys_at(target: OpenedTarget) -> list[tuple[Any, ...]]:
    rows = target.read(f"raw_{SAMPLES.name}")
    return sorted(tuple(row[name] for name in SAMPLES.key) for row in rows)


@pytest.mark.proof
@pytest.mark.parametrize(
    "name",
    [
        "parquet",
        pytest.param("delta", marks=pytest.mark.release),
        pytest.param("iceberg", marks=pytest.mark.release),
        pytest.param("postgres", marks=pytest.mark.postgres),
    ],
)
def test_rows_that_are_lost_and_read_again_leave_an_export_and_return_once(
    sim: Sim, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    target = OPENERS[name](tmp_path / "target", monkeypatch)
    sim.ingest("routers", SAMPLES.name)
    exported(sim, target)
    served = {key_of(SAMPLES, one) for one in sim.truth(SAMPLES.name, NOW - SETTLE)}
    first = keys_at(target)
    for file in sim.settings().lake.joinpath(FILES, "raw", SAMPLES.name).glob("*.parquet"):
        file.unlink()
    plan = plan_repair(sim.settings().lake)
    repair(sim.settings().lake, plan)

    between = exported(sim, target)
    forgotten = keys_at(target)
    read_again(sim.settings(), plan, transport=sim.transport)
    exported(sim, target)

    assert between.full_reason == "the lake no longer has the snapshot of the last export"
    assert forgotten == []
    assert served <= set(keys_at(target)) == set(first)
    assert len(keys_at(target)) == len(first) > 100
