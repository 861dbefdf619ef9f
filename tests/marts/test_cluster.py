"""Marts that a Spark cluster builds equal those of DuckDB, through increments, late data and kills.

`make test-cluster` runs it on a master, three executors and a Spark Connect server of its own;
INCREMENTS says how many hours the lake grows. KILLS says in how many of the longest models an
executor is killed. Spark's driver, with its catalog, and our own process are killed too.
At first the fleet names no places, so that some tables have no rows; then it names both kinds.
"""

import os
import random
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path

import duckdb
import pytest

from fleetlake.lake import open_lake
from fleetlake.marts import build_marts
from fleetlake.marts.catalogue import marts
from fleetlake.marts.named_places import COLUMNS
from tests.support.processes import Service, environment, fleetlake, service
from tests.support.servers import spark_python
from tools.spark_cluster import Cluster, running

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("cluster")]

NOW = "2026-11-28T14:31:30Z"
"""A trip then begins in working hours, at a place that has none of its own."""

INCREMENTS = int(os.environ.get("INCREMENTS", "3"))
KILLS = int(os.environ.get("KILLS", "10"))


def checksum(connection: duckdb.DuckDBPyConnection, relation: str) -> tuple[int, ...] | None:
    """Return rows and checksum; numbers have nine digits, since more depend on the machine."""
    kinds = connection.execute(
        f"select column_name, column_type from (describe select * from {relation})"
    )
    parts = [
        f"printf('%.9g', {name}::double)"
        if kind.startswith(("DOUBLE", "DECIMAL", "BIGINT", "INTEGER", "HUGEINT"))
        else (f"epoch_us({name})::varchar" if kind.startswith("TIMESTAMP") else f"{name}::varchar")
        for name, kind in sorted(kinds.fetchall())
        if name != "built_at"
    ]
    row = f"concat_ws('|', {', '.join(f'coalesce({part}, chr(0))' for part in parts)})"
    return connection.execute(
        f"select count(*), coalesce(sum(hash({row})::hugeint), 0) from {relation}"
    ).fetchone()


def name_places(lake: Path, folder: Path) -> None:
    """Make a folder a project that names where vehicles began: circles and squares in turn.

    The circles have their own working hours.
    """
    with open_lake(lake, read_only=True) as opened:
        starts = opened.rows(
            "select router_id, min_by(latitude, created_at), min_by(longitude, created_at)"
            " from raw.historical_locations group by router_id order by router_id"
        )
    lines = [",".join(COLUMNS)]
    for number, (router, lat, lon) in enumerate(starts):
        corners = ((-1, -1), (1, -1), (1, 1), (-1, 1), (-1, -1))
        ring = ", ".join(f"{lon + 0.01 * x} {lat + 0.01 * y}" for x, y in corners)
        square = f'start {router},,,,"POLYGON (({ring}))",,,'
        lines.append(square if number % 2 else f"start {router},{lat},{lon},800,,67,9,17")
    (folder / "fleetlake.toml").touch()
    (folder / "places.csv").write_text("\n".join([*lines, ""]), "utf-8")


@dataclass
class World:
    """A simulated fleet, its lake, and a cluster that builds the lake's marts."""

    folder: Path
    fleet: Service
    cluster: Cluster
    env: dict[str, str]

    @property
    def lake(self) -> Path:
        return self.folder / "lake"

    @property
    def log(self) -> Path:
        return self.lake / "dbt" / "on-spark" / "logs" / "dbt.log"

    def change_machine(self) -> None:
        """Build on the other of two machines from now on: each has a folder for its builds."""
        ours, theirs, aside = (self.folder / name for name in ("lake/dbt", "theirs", "aside"))
        if not theirs.exists():
            (theirs / "on-spark").mkdir(parents=True)
            shutil.copy(ours / "on-spark" / "storages", theirs / "on-spark")
        for folder, name in ((ours, aside), (theirs, ours), (aside, theirs)):
            folder.rename(name)

    def longest_models(self) -> list[tuple[str, float]]:
        """Return the models of the builds so far, and seconds of each at most, longest first."""
        done = re.findall(r"OK created sql \w+ model (\S+) .*OK in ([\d.]+)s", self.log.read_text())
        seconds = dict(sorted(((name, float(time)) for name, time in done), key=itemgetter(1)))
        return sorted(seconds.items(), key=itemgetter(1), reverse=True)

    def run(self, *words: str) -> None:
        done = fleetlake(*words, env=self.env, cwd=self.folder, timeout=900)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]

    def build(self, *words: str) -> subprocess.Popen[str]:
        """Start a build on the cluster."""
        command = [spark_python(), "-W", "ignore", "-m", "fleetlake", "build", *words]
        env = {**self.env, "SPARK_REMOTE": self.cluster.address}
        pipe = subprocess.PIPE
        return subprocess.Popen(
            command, cwd=self.folder, env=env, stdout=pipe, stderr=pipe, text=True
        )

    def built(self, *words: str) -> str:
        """Build on the cluster; return what the command printed."""
        began = time.monotonic()
        with self.build(*words) as process:
            out, errors = process.communicate(timeout=1200)
        assert process.returncode == 0, out[-3000:] + errors[-3000:]
        sys.stdout.write(f"build {' '.join(words)}: {time.monotonic() - began:.0f} s\n")
        return out

    def different(self) -> dict[str, object]:
        """Return the marts that DuckDB builds otherwise from the same rows, with both checksums."""
        copy = self.folder / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(self.lake, copy, ignore=shutil.ignore_patterns("dbt"))
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(self.folder)
            build_marts(copy)
        found = {}
        for lake in (self.lake, copy):
            with open_lake(lake, read_only=True) as opened:
                for mart in marts():
                    sums = checksum(opened.connection, f"lake.marts.{mart['name']}")
                    found.setdefault(mart["name"], []).append(sums)
        return {name: sums for name, sums in found.items() if sums[0] != sums[1]}


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """Load a fleet, and build its marts on a cluster."""
    folder = tmp_path_factory.mktemp("cluster")
    with (
        running(spark_python(), folder / "spark") as cluster,
        service(routers=8, days=3, seed=3, speed=0, scenario="late-data", now=NOW) as fleet,
    ):
        env = environment(folder, fleet.url, build_on="spark", build_storage=folder / "storage")
        world = World(folder, fleet, cluster, env)
        world.run("ingest")
        world.built()
        yield world


def test_marts_of_a_full_build_equal_those_of_duckdb(world):
    assert world.different() == {}


def test_a_build_with_nothing_new_starts_nothing_on_the_cluster(world):
    assert "up to date" in world.built()


def test_marts_of_hourly_builds_on_two_machines_with_late_data_equal_those_of_duckdb(world):
    for _ in range(INCREMENTS):
        world.fleet.advance(3600)
        world.run("ingest")
        world.change_machine()
        world.built()

    if INCREMENTS % 2:
        world.change_machine()
    with open_lake(world.lake, read_only=True) as opened:
        [(full,)] = opened.rows("select count(*) filter (is_full) from meta.builds")
    assert full == 1
    assert world.different() == {}


def test_marts_equal_those_of_duckdb_after_a_backfill(world):
    world.fleet.advance(600)
    now = world.fleet.state()["now"]
    world.run("backfill", "net_device_usage_samples", "--from", "2020-01-01", "--to", now[:10])
    world.built()

    assert world.different() == {}


def test_a_build_after_a_lost_driver_or_a_killed_build_gives_the_same_marts(world):
    chance = random.Random(39)
    for what in ("driver", "build"):
        world.fleet.advance(3600)
        world.run("ingest")
        before = published(world.lake)
        with world.build() as process:
            time.sleep(chance.uniform(15, 40))
            assert process.poll() is None, "the build had ended before the kill"
            if what == "build":
                process.kill()
            else:
                world.cluster.kill("driver")
            _, errors = process.communicate(timeout=300)
        assert process.returncode != 0
        if what == "driver":
            assert "the cluster no longer answered" in errors
            world.cluster.start_driver()
        half = {name for name, (mart, _) in world.different().items() if mart != before[name]}
        assert not half, "a mart that is neither the old one nor the new one is in the lake"
        world.built()

        assert world.different() == {}


def test_a_full_build_during_which_executors_are_killed_gives_the_same_marts(world):
    name_places(world.lake, world.folder)
    longest = dict(world.longest_models()[:KILLS])
    killed = []
    with world.build("--full") as process, world.log.open(encoding="utf-8") as log:
        log.seek(0, os.SEEK_END)
        while process.poll() is None:
            started = re.search(r"START sql \w+ model (\S+)", log.readline())
            if started and started[1] in longest:
                time.sleep(longest[started[1]] / 2)
                number = len(killed) % world.cluster.executors + 1
                world.cluster.kill(f"executor-{number}")
                world.cluster.start_executor(number)
                killed.append(started[1])
            elif not started:
                time.sleep(0.05)
        out, errors = process.communicate()

    assert process.returncode == 0, out[-3000:] + errors[-3000:]
    assert {*killed} == {*longest}
    assert world.different() == {}
    with open_lake(world.lake, read_only=True) as opened:
        [(places,)] = opened.rows("select count(distinct place_name) from marts.place_visits")
        at_work = opened.rows(
            "from marts.trips where is_working_hours and start_place_name is not null"
        )
    assert places >= 2
    assert at_work


def test_an_erasure_leaves_nothing_in_a_storage_that_is_no_longer_used(world):
    with open_lake(world.lake, read_only=True) as opened:
        [(router,)] = opened.rows("select min(id) from raw.routers")
    world.env["FLEETLAKE_BUILD_ON"] = ""
    assert [*(world.folder / "storage").rglob("*.parquet")]

    world.run("erase", "--router", str(router), "--yes")

    assert [*(world.folder / "storage").rglob("*.parquet")] == []


def published(lake: Path) -> dict[str, object]:
    """Return rows and checksum of each mart that readers see."""
    with open_lake(lake, read_only=True) as opened:
        return {
            mart["name"]: checksum(opened.connection, f"lake.marts.{mart['name']}")
            for mart in marts()
        }
