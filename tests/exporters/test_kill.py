"""Kill -9 at any moment of an export: after the next export, the target equals the lake."""

import os
import random
import time

import pytest

from fleetlake.lake import open_lake
from tests.exporters.targets import OPENERS
from tests.support.processes import environment, fleetlake, kill_after

KILLS = int(os.environ.get("EXPORT_KILLS", "2"))
ROWS = 100_000
TARGETS = [
    "parquet",
    pytest.param("delta", marks=pytest.mark.release),
    pytest.param("iceberg", marks=pytest.mark.release),
    pytest.param("postgres", marks=pytest.mark.postgres),
]


@pytest.mark.proof
@pytest.mark.xdist_group("processes")
@pytest.mark.parametrize("name", TARGETS)
def test_the_next_export_repairs_what_a_killed_export_left(tmp_path, monkeypatch, name):
    target = OPENERS[name](tmp_path / "target", monkeypatch)
    address = target.address.get_secret_value()
    env = environment(tmp_path, **{f"exports__{name}": address})
    chance = random.Random(name)
    with open_lake(tmp_path / "lake") as lake:
        lake.execute(
            "create table marts.trips as select i % 50 as router_id, i as trip_id, 0 as length_m "
            f"from range({ROWS}) r(i)"
        )
    began = time.monotonic()
    fleetlake("export", "csv", "--to", str(tmp_path / "elsewhere"), env=env)
    takes = time.monotonic() - began  # on this machine, now: no target is faster
    killed = 0
    for attempt in range(5 * KILLS):
        if killed == KILLS:
            break
        moment = takes * chance.uniform(0.3, 0.85)
        if kill_after(moment, "export", name, env=env):
            killed += 1
        else:  # the machine is less busy than when it was measured
            takes = moment
        with open_lake(tmp_path / "lake") as lake:
            lake.execute(f"update marts.trips set length_m = {attempt + 1} where trip_id % 3 = 0")
            lake.execute(f"delete from marts.trips where trip_id % 1000 = {attempt}")
    last = fleetlake("export", name, env=env)
    with open_lake(tmp_path / "lake", read_only=True) as lake:
        ours = sorted(lake.rows("select router_id, trip_id, length_m from marts.trips"))

    assert last.returncode == 0, last.stderr
    assert killed == KILLS
    theirs = [(r["router_id"], r["trip_id"], r["length_m"]) for r in target.read("trips")]
    assert sorted(theirs) == ours
