"""`fleetlake erase` killed at random moments, then run again: as if it had never been stopped.

`make kill-test N=20` runs this and the kills of `repair` at full count. After each round, the lake
has the same rows as one whose erasure ran to its end, and no file holds anything of the erased.
"""

import os
import random
import shutil
import sys
import time
from pathlib import Path

import pytest
from pydantic import SecretStr

from fleetlake.exporters import TARGETS
from fleetlake.exporters.export import export
from fleetlake.lake import open_lake
from fleetlake.marts import build_marts
from fleetlake.publishing.publish import publish
from tests.support.leaks import scan
from tests.support.processes import environment, fleetlake, kill_after
from tests.support.sim import Sim, loaded_sim, new_sim
from tests.test_erase import FLEET, LOADED, ids_of, mention, texts_of, wanted

ROUNDS = int(os.environ.get("KILL_TEST_ROUNDS", "3"))
EXPORTED = ("raw.users", "raw.routers", "device_inventory", "change_log")
FIRST_SECONDS = 0.5
"""A process needs about as long to start; every later moment is drawn."""


def test_an_erasure_killed_at_random_moments_ends_as_one_that_was_never_stopped(
    used: Sim, tmp_path: Path
) -> None:
    chance, kills = random.Random(19), 0
    began = time.monotonic()
    whole = erased(used, tmp_path / "whole")
    length = time.monotonic() - began
    expected = contents(whole)
    texts, ids = texts_of(used), ids_of(used)

    assert scan([used.folder], texts=texts, ids=ids).leaks
    assert scan([whole.folder], texts=texts, ids=ids).leaks == []
    for number in range(ROUNDS):
        folder = tmp_path / str(number)
        shutil.copytree(used.folder, folder, symlinks=True)
        moments = []
        for _ in range(1 + number % 2):
            moments.append(chance.uniform(FIRST_SECONDS, length))
            if kill_after(moments[-1], *words(used), env=env_of(folder)):
                kills += 1
            else:  # it had ended before: on a busy machine the first one took longer than the next
                length = moments[-1]
        sim = erased(used, folder)
        found = scan([folder], texts=texts, ids=ids)
        different = {name for name, rows in contents(sim).items() if expected[name] != rows}
        sys.stdout.write(
            f"round {number}: killed after {', '.join(f'{m:.1f}' for m in moments)} s of "
            f"{length:.1f} s; {found.files} files, {found.bytes:,} bytes, "
            f"{len(found.leaks)} hits; tables that differ: {sorted(different) or 'none'}\n"
        )
        sys.stdout.flush()
        assert found.leaks == []
        assert different == set()
        sim.advance(3600)
        sim.ingest(*LOADED)
        assert scan([sim.settings().lake], texts=texts, ids=ids).leaks == []
        shutil.rmtree(folder)
    assert kills > 0


@pytest.fixture(scope="module")
def used(empty_lake: Path, tmp_path_factory: pytest.TempPathFactory) -> Sim:
    """Return a service whose lake is loaded, built, published and exported."""
    sim = loaded_sim(tmp_path_factory.mktemp("used"), empty_lake, *LOADED, **FLEET)
    mention(sim)
    build_marts(sim.settings().lake)
    publish(sim.settings().lake, sim.settings().published, raw=["users"])
    with open_lake(sim.settings().lake) as lake:
        for name in ("parquet", "delta"):
            export(lake, TARGETS[name], SecretStr(str(sim.folder / name)), EXPORTED)
    return sim


pytestmark = [pytest.mark.release, pytest.mark.xdist_group("processes")]


def words(sim: Sim) -> list[str]:
    """Return the words of the command that erases the victims."""
    named = [(f"--{thing}", str(id_)) for thing, id_ in wanted(sim)]
    return ["erase", "--yes", *(word for pair in named for word in pair)]


def env_of(folder: Path) -> dict[str, str]:
    targets = {f"exports__{name}": folder / name for name in ("parquet", "delta")}
    return environment(folder, **targets)


def erased(used: Sim, folder: Path) -> Sim:
    """Erase the victims from a folder, or a copy of the used one, and return its service."""
    if not folder.exists():
        shutil.copytree(used.folder, folder, symlinks=True)
    done = fleetlake(*words(used), env=env_of(folder), timeout=900)
    assert done.returncode == 0, done.stderr
    return new_sim(folder, **FLEET)


def contents(sim: Sim) -> dict[str, tuple[int, int]]:
    """Return the rows of each table, as their number and the sum of their hashes.

    Two marts say when each row was built, which is not compared.
    """
    with open_lake(sim.settings().lake, read_only=True) as lake:
        tables = lake.rows(
            "select schema_name, table_name from duckdb_tables() where database_name = 'lake' "
            "and (schema_name in ('raw', 'marts') or table_name in ('quarantine', 'absent'))"
        )
        return {
            f"{schema}.{table}": lake.rows(
                "select count(*), coalesce(sum(hash(t)), 0) from "
                f"(select columns(c -> c <> 'built_at') from {schema}.{table}) t"
            )[0]
            for schema, table in tables
        }
