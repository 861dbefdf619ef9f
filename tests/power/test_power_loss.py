"""Power loss at any moment: what was not flushed is gone, and still nothing is lost or doubled.

A command runs with every file operation recorded. Then the power fails at random instants of that
record: the folder becomes what the disk may hold, and the next ingest must make it whole.
`make power-test N=100` runs the same proof at full count.
"""

import json
import os
import random
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from unittest.mock import patch

import duckdb
import pytest

from fleetlake.lake import open_lake
from fleetlake.loading.ingest import ingest, raise_worst
from fleetlake.settings import Settings
from fleetlake.text.quoting import literal, quoted
from tests.power.disk import Disk, FileSystem, Operation, compiled_recorder, operations
from tests.support.processes import UNSETTLED, Service, environment, fleetlake, service
from tests.test_crash import compare

CUTS = int(os.environ.get("POWER_TEST_CUTS", "10"))
CUTS_PER_COMMAND = 4 if CUTS >= 20 else 2
NAMES = (
    "routers",  # a list kept as history
    "locations",
    "alerts",
    "activity_logs",
    "router_state_samples",
    "net_device_signal_samples",  # read device by device
    "historical_locations",
)
COMMANDS = (
    ("ingest", *NAMES),
    ("maintain", "--keep-days", "0"),
    ("publish",),
    ("ingest", *NAMES),
    ("build",),
)


@dataclass
class Machine:
    """A machine whose disk is the folder `root`, which holds a lake and published marts."""

    root: Path
    fleet: Service
    recorder: Path
    chance: random.Random

    @property
    def env(self) -> dict[str, str]:
        """Return the settings of this machine's commands."""
        return environment(self.root, self.fleet.url)

    def record(self, *words: str) -> list[Operation]:
        """Run a command to its end and return what it did to the disk."""
        log = self.root.with_name("operations")
        log.unlink(missing_ok=True)
        done = fleetlake(*words, env=self.env | {"LD_PRELOAD": str(self.recorder)})
        assert done.returncode == 0, done.stderr
        return list(operations(log))

    def instant(self, recorded: list[Operation]) -> int:
        """Return after how many operations the power fails: at any, or near a flush."""
        flushes = [number for number, one in enumerate(recorded) if one.op in "fs"]
        if flushes and self.chance.random() < 0.5:
            return min(len(recorded), self.chance.choice(flushes) + self.chance.randrange(8))
        return self.chance.randrange(len(recorded) + 1)

    def recover(self) -> tuple[int, int, int]:
        """Load again; return the compared rows, duplicates and losses."""
        now = datetime.fromisoformat(self.fleet.state()["now"])
        with patch.dict(os.environ, self.env, clear=True):
            raise_worst(ingest(Settings(), NAMES))
        read_all(self.root / "lake")
        return compare(self.fleet, self.env, (now - UNSETTLED).isoformat(), NAMES)


def read_all(lake_path: Path) -> None:
    """Read every value of every table of a lake. Raises: LakeError if a file is damaged."""
    with open_lake(lake_path, read_only=True) as lake:
        tables = lake.rows(
            "select schema_name, table_name from duckdb_tables() where database_name = 'lake'"
        )
        for schema, table in tables:
            lake.rows(f"select bit_xor(hash(t)) from {schema}.{quoted(table)} t")


def read_published(published: Path) -> None:
    """Read every file of the published snapshot, and compare its rows with its description."""
    if not published.is_symlink():
        return  # the power failed before the first snapshot was published
    tables = json.loads((published / "snapshot.json").read_text())["tables"]
    for name, table in tables.items():
        files = literal(f"{published / name}/**/*.parquet")
        [(rows, _)] = duckdb.sql(f"select count(*), bit_xor(hash(t)) from {files} t").fetchall()
        assert rows == table["rows"], name


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """Return a machine with a loaded and built lake, and a small fleet whose clock stands still."""
    root = tmp_path / "disk"
    recorder = compiled_recorder(tmp_path, root, root.with_name("operations"))
    root.mkdir()
    with service(routers=4, days=1) as fleet:
        fleet.stop_clock()
        machine = Machine(root, fleet, recorder, random.Random(19))
        for words in (("ingest", *NAMES), ("build",)):
            assert fleetlake(*words, env=machine.env).returncode == 0
        yield machine


@pytest.mark.release
@pytest.mark.xdist_group("processes")
def test_power_loss_at_any_moment_loses_and_duplicates_nothing(machine: Machine) -> None:
    before, rows = machine.root.with_name("before"), 0
    cuts: Counter[str] = Counter()
    faults = []
    while cuts.total() < CUTS:
        words = COMMANDS[cuts.total() // CUTS_PER_COMMAND % len(COMMANDS)]
        machine.fleet.advance(machine.chance.uniform(600, 14_400))
        shutil.rmtree(before, ignore_errors=True)
        shutil.copytree(machine.root, before, symlinks=True)
        recorded = machine.record(*words)
        for _ in range(CUTS_PER_COMMAND):
            shutil.rmtree(machine.root)
            shutil.copytree(before, machine.root, symlinks=True)
            instant = machine.instant(recorded)
            system = machine.chance.choice([*FileSystem])
            disk = Disk(machine.root).play(recorded[:instant], system)
            disk.cut_power(system, machine.chance)
            where = f"{words[0]} at {instant} of {len(recorded)}, {system.name}"
            cuts[words[0]] += 1
            sys.stdout.write(f"{cuts.total()}: {where}\n")
            try:
                read_published(machine.root / "published")
                compared, doubles, losses = machine.recover()
            except Exception as error:  # noqa: BLE001 - each cut is counted
                faults.append(f"{where}: {type(error).__name__}: {str(error)[:300]}")
                sys.stdout.write(f"{faults[-1]}\n")
                continue
            rows += compared
            faults += [f"{where}: {doubles} doubled, {losses} lost"] if doubles + losses else []
        if faults:
            shutil.rmtree(machine.root)
            shutil.copytree(before, machine.root, symlinks=True)
    lines = [f"{rows:,} rows compared after {cuts.total()} cuts {dict(cuts)}", *faults, ""]
    sys.stdout.write("\n".join(lines))

    assert faults == []
