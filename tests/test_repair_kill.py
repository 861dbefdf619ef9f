"""`fleetlake repair` killed at random moments: the lake is as before, or repaired, and then whole.

`make kill-test N=20` runs this and the kills of `erase` at full count. The truth comes from the
simulator.
"""

import os
import random
import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import pytest

from fleetlake.care.integrity.check import check_lake
from fleetlake.care.integrity.damage import DamageKind
from fleetlake.errors import LakeError
from fleetlake.lake import open_lake
from fleetlake.lake.attach import FILES
from tests.support.processes import UNSETTLED, Service, environment, fleetlake, kill_after, service
from tests.test_crash import compare
from tests.test_damage import LOADED, flip, truncate

ROUNDS = int(os.environ.get("KILL_TEST_ROUNDS", "5"))
FIRST_SECONDS = 0.4
"""A process needs about as long to start; every later moment is drawn."""

pytestmark = [pytest.mark.release, pytest.mark.xdist_group("processes")]


@dataclass(frozen=True)
class Loaded:
    """A service whose clock stands still, and the folder of a lake with all that it has."""

    fleet: Service
    folder: Path

    @property
    def settled(self) -> str:
        """The time before which everything must be in the lake."""
        now = datetime.fromisoformat(self.fleet.state()["now"])
        return (now - UNSETTLED).isoformat()


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loaded]:
    """Return a service whose lake has merged files and small ones."""
    folder = tmp_path_factory.mktemp("loaded")
    with service(routers=6, days=3) as fleet:
        env = environment(folder, fleet.url)
        for words in (("ingest", *LOADED), ("maintain",), ("ingest", *LOADED)):
            fleet.advance(3600)
            done = fleetlake(*words, env=env)
            assert done.returncode == 0, done.stderr
        fleet.stop_clock()
        yield Loaded(fleet, folder)


def test_a_repair_killed_at_random_moments_leaves_the_lake_as_before_or_repaired(
    loaded: Loaded, tmp_path: Path
) -> None:
    chance, kills, length = random.Random(19), 0, 0.0
    for number in range(ROUNDS + 1):  # the first one is not killed, but measured
        folder = tmp_path / str(number)
        shutil.copytree(loaded.folder, folder)
        env, lake = environment(folder, loaded.fleet.url), folder / "lake"
        damage(lake, chance)
        harmed = tables_of(lake)
        before = readable(lake)
        if number:
            moment = chance.uniform(FIRST_SECONDS, length)
            was_alive = kill_after(moment, "repair", env=env)
            kills += was_alive
            length = length if was_alive else moment  # a busy machine made the first one longer
            left = tables_of(lake)
            between = readable(lake)
            assert left <= harmed  # a query of these fails, as it did before
            for table in before.keys() - harmed:
                assert between[table] == before[table]
            sys.stdout.write(
                f"round {number}: killed after {moment:.1f} s of {length:.1f} s; "
                f"damaged tables {len(harmed)}, then {len(left)}\n"
            )
            sys.stdout.flush()
        began = time.monotonic()
        for words in (("repair",), ("ingest", *LOADED)):
            done = fleetlake(*words, env=env)
            assert done.returncode == 0, done.stderr
            length = length or time.monotonic() - began
        rows, doubles, losses = compare(loaded.fleet, env, loaded.settled, LOADED)
        assert (doubles, losses) == (0, 0)
        assert rows > 1000
        assert {one.kind for one in check_lake(lake, is_full=True).damages} <= {DamageKind.UNKNOWN}
        shutil.rmtree(folder)
    assert kills > 0


def damage(lake: Path, chance: random.Random) -> None:
    """Delete, cut or change one to three files of raw tables."""
    files = sorted((lake / FILES / "raw").rglob("*.parquet"))
    for file in chance.sample(files, chance.randint(1, 3)):
        chance.choice([Path.unlink, truncate, lambda path: flip(path, chance.random())])(file)


def tables_of(lake: Path) -> set[str]:
    """Return the tables with damaged files."""
    return {one.table for one in check_lake(lake, is_full=True).damages}


def readable(lake: Path) -> dict[str, object]:
    """Return the rows of each table that can be read, as their number and the sum of hashes."""
    found: dict[str, object] = {}
    with open_lake(lake, read_only=True) as opened:
        for name in LOADED:
            try:
                found[f"raw.{name}"] = opened.rows(
                    f"select count(*), sum(hash(t)) from raw.{name} t"
                )
            except LakeError:
                continue
    return found
