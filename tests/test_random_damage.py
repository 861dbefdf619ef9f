"""Random damage to lakes: what a check says, and whether everything comes back.

`make damage-test N=200` runs it at full count and prints the matrix. The truth comes from the
simulator.
"""

import os
import random
import shutil
import sqlite3
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from fleetlake.care.integrity.check import check_lake
from fleetlake.care.integrity.damage import DamageKind
from fleetlake.care.integrity.rebuild import rebuild_catalog
from fleetlake.care.maintenance import maintain
from fleetlake.decoding.values import read_value
from fleetlake.endpoints import ENDPOINTS
from fleetlake.endpoints.columns import Column, Kind
from fleetlake.endpoints.model import Endpoint, Mode
from fleetlake.errors import LakeError
from fleetlake.lake import open_lake
from fleetlake.lake.attach import CATALOG, FILES
from fleetlake.loading.repair import plan_repair, read_again, repair
from tests.support.sim import NOW, Sim, loaded_sim, new_sim
from tests.test_damage import LOADED, flip, truncate
from tests.test_load import flaws, key_of, member

ROUNDS = int(os.environ.get("DAMAGE_TEST_ROUNDS", "10"))
AGE = timedelta(hours=30)
PAGE = 4096


@pytest.fixture(scope="module")
def aged(empty_lake: Path, tmp_path_factory: pytest.TempPathFactory) -> Sim:
    """Return a service whose lake has merged files, small ones, and rows in the catalog."""
    sim = loaded_sim(tmp_path_factory.mktemp("aged"), empty_lake, *LOADED)
    sim.advance(AGE.total_seconds() - 3600)
    sim.ingest(*LOADED)
    with open_lake(sim.folder / "lake") as lake:
        maintain(lake)
    sim.advance(3600)
    sim.ingest(*LOADED)
    return sim


@dataclass
class Round:
    """A copy of the aged lake, with its service a little later, and the source of chance."""

    sim: Sim
    chance: random.Random

    @property
    def lake(self) -> Path:
        """The folder of the lake."""
        return self.sim.folder / "lake"

    def file(self) -> Path:
        """Return one of the lake's files."""
        return self.chance.choice(sorted((self.lake / FILES).rglob("*.parquet")))


def swap(one: Round) -> None:
    first, second = one.file(), one.file()
    content = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(content)


def damage_a_page(one: Round) -> None:
    """Overwrite a page of the catalog, which a process that ends leaves without a log."""
    with closing(sqlite3.connect(one.lake / CATALOG)) as opened:
        opened.execute("pragma wal_checkpoint(truncate)")
    pages = (one.lake / CATALOG).stat().st_size // PAGE
    with (one.lake / CATALOG).open("r+b") as file:
        file.seek(PAGE * one.chance.randrange(pages))
        file.write(one.chance.randbytes(PAGE))


def delete_the_log(one: Round) -> None:
    """Leave the lake as a killed process does, then delete the log with its last commits."""
    copy = one.lake.with_name("copy")
    with open_lake(one.lake, read_only=True) as reader:
        reader.begin_long_read()
        reader.rows("select count(*) from meta.loads")  # while it reads, the log is not applied
        one.sim.advance(3600)
        one.sim.ingest(*LOADED)
        assert (one.lake / f"{CATALOG}-wal").stat().st_size
        shutil.copytree(one.lake, copy)
    for suffix in ("-wal", "-shm"):
        (copy / f"{CATALOG}{suffix}").unlink()
    shutil.rmtree(one.lake)
    copy.rename(one.lake)


def leave_locks(one: Round) -> None:
    for name in ("commit", "files", "users", "door", "upgrade"):
        (one.lake / "locks" / f"{name}.lock").touch()


def move(one: Round) -> None:
    one.sim.folder = Path(one.sim.folder.rename(one.sim.folder.with_name("moved")))


def copy_live(one: Round) -> None:
    """Copy the folder, file by file, while a load writes into it."""
    copy = one.lake.with_name("copy")
    one.sim.advance(7200)
    load = Thread(target=one.sim.ingest, args=LOADED)
    load.start()
    while load.is_alive():
        shutil.rmtree(copy, ignore_errors=True)
        try:
            shutil.copytree(one.lake, copy)
        except shutil.Error:
            continue  # a file went while the folder was listed
        if one.chance.random() < 0.3:
            break
    load.join()
    shutil.rmtree(one.lake)
    copy.rename(one.lake)


DAMAGES: dict[str, Callable[[Round], object]] = {
    "file deleted": lambda one: one.file().unlink(),
    "file truncated": lambda one: truncate(one.file()),
    "byte flipped": lambda one: flip(one.file(), one.chance.random()),
    "files swapped": swap,
    "catalog deleted": lambda one: (one.lake / CATALOG).unlink(),
    "catalog page damaged": damage_a_page,
    "log deleted": delete_the_log,
    "lock left behind": leave_locks,
    "folder moved": move,
    "folder copied live": copy_live,
}


def said(one: Round) -> tuple[str, str]:
    """Check the lake, do what the check says, and load; return what it said, and what was done."""
    try:
        report = check_lake(one.lake, is_full=True)
    except LakeError as error:
        if "--rebuild-catalog" not in error.remedy:
            raise
        rebuild_catalog(one.lake)
        return "catalog lost", "catalog built anew"
    kinds = sorted({str(damage.kind) for damage in report.damages})
    if DamageKind.CATALOG in kinds:
        rebuild_catalog(one.lake)
        return "catalog", "catalog built anew"
    plan = plan_repair(one.lake)
    if plan.is_nothing:
        return ", ".join(kinds) or "nothing", "next load"
    repair(one.lake, plan)
    read_again(one.sim.settings(), plan, transport=one.sim.transport)
    return ", ".join(kinds), "repair"


def wrong_values(sim: Sim, endpoint: Endpoint) -> int:
    """Return how many rows differ from what the service has, in any value that it compares."""
    columns = [
        column
        for column in endpoint.columns
        if column.name in endpoint.tracked or endpoint.mode is not Mode.HISTORY
    ]
    served = {
        key_of(endpoint, record): tuple(served_value(column, record) for column in columns)
        for record in sim.truth(endpoint.name)
    }
    listed = ", ".join(f'"{name}"' for name in (*endpoint.key, *(c.name for c in columns)))
    current = "where valid_to is null" if endpoint.mode is Mode.HISTORY else ""
    with open_lake(sim.folder / "lake", read_only=True) as lake:
        kept = lake.rows(f"select {listed} from raw.{endpoint.name} {current}")
    width = len(endpoint.key)
    return sum(served.get(row[:width], row[width:]) != row[width:] for row in kept)


def served_value(column: Column, record: dict[str, Any]) -> Any:
    """Return the value that the lake should have of a served record."""
    value = read_value(column.kind, member(record, column.path))
    return datetime.fromisoformat(value) if column.kind is Kind.TIME and value else value


def later(sim: Sim) -> timedelta:
    state: dict[str, Any] = sim.ask("GET", "/sim/state").json()
    return datetime.fromisoformat(state["now"]) - NOW


@pytest.mark.release
def test_everything_comes_back_after_random_damage(aged: Sim, tmp_path: Path) -> None:
    chance = random.Random(int(os.environ.get("DAMAGE_TEST_SEED", "1")))
    endpoints = [ENDPOINTS[name] for name in LOADED]
    outcomes: dict[str, Counter[tuple[str, str]]] = {kind: Counter() for kind in DAMAGES}
    missing = wrong = unsound = 0
    for number in range(ROUNDS):
        kind = [*DAMAGES][number % len(DAMAGES)]
        folder = tmp_path / str(number)
        shutil.copytree(aged.folder, folder)
        one = Round(new_sim(folder), chance)
        one.sim.advance(AGE.total_seconds())
        DAMAGES[kind](one)
        found, back = said(one)
        outcomes[kind][found, back] += 1
        ended = one.sim.ingest(*LOADED)
        assert [outcome.error for outcome in ended] == [None] * len(ended)
        lost = flaws(one.sim, endpoints, NOW + later(one.sim))
        differing = sum(wrong_values(one.sim, endpoint) for endpoint in endpoints)
        left = {str(damage.kind) for damage in check_lake(one.lake, is_full=True).damages}
        sys.stdout.write(f"round {number}: {kind}; check said {found}; {back}\n")
        if lost or differing or left - {DamageKind.UNKNOWN}:
            sys.stdout.write(f"  lost: {lost}; {differing} rows differ; left: {left}\n")
            unsound += 1
        sys.stdout.flush()
        missing, wrong = missing + len(lost), wrong + differing
        shutil.rmtree(one.sim.folder)
    for kind, counted in outcomes.items():
        for (found, back), count in sorted(counted.items()):
            sys.stdout.write(f"| {kind} | {count} | {found} | {back} |\n")
    sys.stdout.write(f"{ROUNDS} rounds: {missing} tables with losses, {wrong} wrong rows\n")

    assert (missing, wrong, unsound) == (0, 0, 0)
