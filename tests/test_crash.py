"""Kill -9 at any moment: everything committed stays, and nothing is stored twice.

All faults at once: broken responses of every kind, records that appear late, a clock that
moves. `make crash-test N=200` runs the same proof at full count. `make broken-test` reads with two
processes at once from a service of whose responses three in ten are broken.
"""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Collection
from datetime import datetime, timedelta
from itertools import cycle, islice
from pathlib import Path
from unittest.mock import patch

import pytest

from fleetlake.endpoints import ENDPOINTS, forget_own
from fleetlake.lake import open_lake
from fleetlake.planning.coverage import SWEEP
from fleetlake.settings import Settings
from fleetsim.app import create_app
from fleetsim.options import SimulatorOptions
from fleetsim.scenarios import SCENARIOS
from tests.support.cases import REQUESTED
from tests.support.processes import (
    DESCRIBED,
    UNSETTLED,
    Service,
    command,
    environment,
    fleetlake,
    kill_after,
    own_project,
    service,
)
from tests.support.sim import NOW, Sim
from tests.test_load import assert_complete, key_of, keys_in

KILLS = int(os.environ.get("CRASH_TEST_KILLS", "4"))
FLEET = {"routers": 12, "days": 3} if KILLS > 4 else {"routers": 6, "days": 1}
SEED = int(os.environ.get("CRASH_TEST_SEED", "5"))
KILLED = (("ingest",), ("maintain", "--keep-days", "0"))
SHORTEST_LIFE_SECONDS = 0.3  # sooner, no process has opened the lake
LATE_BY = timedelta(minutes=15)  # of one record in five, in the scenario that is served
NAMED = 5  # of the losses of a table
FLAKY = SCENARIOS["flaky"].faults
OWN = ("depots", "visits", "readings", "badges", "outings", "vaults", "lockers")
"""Lists that the project describes; of `audits`, the service deletes some before they are read."""
EACH_OWN = {"freshness__visits": 0, "freshness__readings": 0}
BROKEN = {
    "status_500": 0.1,
    "status_429": 0.05,
    "reset": 0.05,
    "truncate": 0.1,
}  # 30 % of responses


def compare(
    fleet: Service, env: dict[str, str], settled: str, names: Collection[str] = tuple(REQUESTED)
) -> tuple[int, int, int]:
    """Return the compared rows, duplicates and losses over the named tables, by the service's word.

    `settled` is the time before which everything must be in the lake.
    """
    rows = doubles = losses = 0
    with patch.dict(os.environ, env):
        place = Settings().lake
    with open_lake(place, read_only=True) as lake:
        kept = {name: keys_in(lake, ENDPOINTS[name]) for name in names}
    for endpoint in (ENDPOINTS[name] for name in names):
        keys = kept[endpoint.name]
        until = "" if endpoint.is_snapshot else settled
        wanted = {key_of(endpoint, record) for record in fleet.truth(endpoint.name, until)}
        ever = {key_of(endpoint, record) for record in fleet.truth(endpoint.name)}
        missing, invented = wanted - set(keys), set(keys) - ever
        rows += len(wanted)
        doubles += len(keys) - len(set(keys))
        losses += len(missing) + len(invented)
        for what, found in (("is missing", missing), ("was never served", invented)):
            for key in sorted(found, key=str)[:NAMED]:
                sys.stdout.write(f"{endpoint.name} {key} {what}\n")
    return rows, doubles, losses


KILLED_IN_A_COMMIT = """
import os, signal, sys
from pathlib import Path
from fleetlake.lake import commit, connection
from tests.support.sim import NOW, Sim
from tests.test_crash import SMALL
from fleetsim.app import create_app

def die(_):
    print("rows are written, and their commit is not", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

write = commit.write_rows

def write_and_die(*loading):
    connection.flush_files = die
    return write(*loading)

commit.write_rows = write_and_die
Sim(create_app(SMALL), Path(sys.argv[1])).ingest("alerts")
"""
SMALL = SimulatorOptions(routers=6, days=1, now=NOW, speed=0)


@pytest.mark.proof
def test_ingest_after_one_killed_during_its_commit_completes_the_load(lake_path: Path) -> None:
    killed = subprocess.run(
        [sys.executable, "-c", KILLED_IN_A_COMMIT, str(lake_path.parent)],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        check=False,
    )
    with open_lake(lake_path, read_only=True) as lake:
        left = lake.rows(
            "select count(*) from raw.alerts union all from (select count(*) from meta.loads)"
        )
    sim = Sim(create_app(SMALL), lake_path.parent)
    sim.ingest("alerts")

    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert "rows are written" in killed.stdout
    assert left == [(0,), (0,)]
    assert_complete(sim, ENDPOINTS["alerts"])


@pytest.mark.proof
@pytest.mark.xdist_group("processes")
def test_ingest_and_maintain_killed_in_turn_lose_and_duplicate_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(SEED)
    own = own_project(tmp_path / "project", DESCRIBED)
    monkeypatch.chdir(tmp_path / "project")  # of the commands, too
    forget_own()
    with service(**FLEET, scenario="late-data", endpoints=own) as fleet:
        env = environment(tmp_path, fleet.url, **EACH_OWN)
        fleet.faults(**FLAKY)
        longest = lengths(fleet, environment(tmp_path / "measured", fleet.url, **EACH_OWN))
        kills: Counter[str] = Counter()
        for words in islice(cycle(KILLED), 3 * KILLS):
            life = chance.uniform(SHORTEST_LIFE_SECONDS, longest[words[0]])
            if kill_after(life, *words, env=env):
                kills[words[0]] += 1
            else:  # the machine may be less busy than when it was measured
                longest[words[0]] = max(life, 2 * SHORTEST_LIFE_SECONDS)
            fleet.advance(chance.uniform(60, 7200))
            if kills.total() == KILLS:
                break
        commits = loads_in(tmp_path / "lake")
        fleet.advance(SWEEP.total_seconds())
        now = datetime.fromisoformat(fleet.state()["now"])
        last = fleetlake("ingest", env=env, timeout=600)
        fleet.faults(**dict.fromkeys(FLAKY, 0))
        settled = now - LATE_BY - UNSETTLED
        rows, doubles, losses = compare(fleet, env, settled.isoformat(), (*REQUESTED, *OWN))
    sys.stdout.write(
        f"{rows:,} rows compared, kills {dict(kills)} in runs of up to {longest} s, "
        f"{commits:,} loads committed by them, {doubles} duplicates, {losses} losses\n"
    )

    assert last.returncode == 0, last.stderr
    assert kills.total() == KILLS
    assert all(kills[words[0]] for words in KILLED)
    assert commits > kills["ingest"]  # or the kills came too soon to hurt anything
    assert rows > 3_000
    assert (doubles, losses) == (0, 0)


@pytest.mark.release
def test_two_ingests_at_once_of_broken_responses_lose_and_duplicate_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = own_project(tmp_path / "project", DESCRIBED)
    monkeypatch.chdir(tmp_path / "project")
    forget_own()
    with service(routers=12, days=3, seed=SEED, scenario="late-data", endpoints=own) as fleet:
        env = environment(tmp_path, fleet.url, **EACH_OWN)
        fleet.faults(**BROKEN)
        codes = []
        for _ in range(3):
            both = [
                subprocess.Popen(command("ingest"), env=env, stderr=subprocess.DEVNULL)
                for _ in range(2)
            ]
            codes += [run.wait(timeout=600) for run in both]
            fleetlake("ingest", env=env, timeout=600)
            fleet.advance(3600)
        fleet.advance(SWEEP.total_seconds())
        now = datetime.fromisoformat(fleet.state()["now"])
        fleet.faults(**dict.fromkeys(BROKEN, 0))
        last = fleetlake("ingest", env=env, timeout=600)
        settled = now - LATE_BY - UNSETTLED
        rows, doubles, losses = compare(fleet, env, settled.isoformat(), (*REQUESTED, *OWN))
    sys.stdout.write(
        f"{rows:,} rows compared, {codes.count(0)} of {len(codes)} concurrent runs complete, "
        f"{doubles} duplicates, {losses} losses\n"
    )

    assert 0 in codes
    assert last.returncode == 0, last.stderr
    assert rows > 3_000
    assert (doubles, losses) == (0, 0)


def lengths(fleet: Service, env: dict[str, str]) -> dict[str, float]:
    """Return how many seconds each command takes here and now, when an hour's rows are new.

    A kill can only hit a commit if it is drawn from the whole length of a run, on any machine.
    """
    found = {}
    for words in (KILLED[0], *KILLED):  # the first load is longer than all that follow
        fleet.advance(3600)
        began = time.monotonic()
        done = fleetlake(*words, env=env, timeout=600)
        assert done.returncode == 0, done.stderr
        found[words[0]] = round(time.monotonic() - began, 1)
    return found


def loads_in(path: Path) -> int:
    """Return how many loads were committed to a lake."""
    with open_lake(path, read_only=True) as lake:
        [(count,)] = lake.rows("select count(*) from meta.loads")
    return int(count)
