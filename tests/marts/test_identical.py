"""Marts do not depend on how the lake was filled: incrementally, late, after kills, or at once.

`make mart-increments` runs the same proof with 50 increments and three kills.
"""

import os
import random
import shutil
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from fleetlake.lake import open_lake
from fleetlake.marts import build_marts
from fleetlake.marts.catalogue import marts
from fleetlake.planning.coverage import SWEEP
from tests.support.processes import environment, fleetlake, kill_after, service

pytestmark = [pytest.mark.release, pytest.mark.xdist_group("processes")]

INCREMENTS = int(os.environ.get("MART_INCREMENTS", "2"))
KILLS, ROUTERS = (3, 12) if INCREMENTS >= 50 else (1, 6)
BUILD_EVERY = 6

OFTEN = ("alerts", "historical_locations", "net_device_usage_samples", "net_device_signal_samples")
"""Resources that may get new records within a minute."""

# Polls at different times find different data.
POLLED = {"attention", "device_history", "device_availability_daily", "pipeline_freshness"}
POLLED |= {"interface_inventory", "sim_changes", "health_daily"}
POLLED |= {mart["name"] for mart in marts() if mart["name"].startswith("battery_")}


def run(*words, env):
    done = fleetlake(*words, env=env, timeout=600)
    assert done.returncode == 0, done.stderr


def content(lake: Path):
    """Return rows and a checksum of every mart, without `built_at`."""
    with open_lake(lake, read_only=True) as opened:
        return {
            mart["name"]: opened.rows(
                f"select count(*), sum(hash(t)::hugeint) from (select columns(c -> c <> 'built_at')"
                f" from marts.{mart['name']}) as t"
            )
            for mart in marts()
        }


def advance_to_quiet(fleet):
    """Move the service's clock to a time at which a slightly longer load finds nothing more.

    A load reads records that are a minute old, and adds its own seconds to the last clock reading.
    """
    while True:
        now = datetime.fromisoformat(fleet.state()["now"]).astimezone(UTC)
        first, last = now - timedelta(seconds=70), now - timedelta(seconds=20)
        texts = [fleet.truth(name, until=last.isoformat()) for name in OFTEN]
        newest = max(record["created_at"] for records in texts for record in records)
        if datetime.fromisoformat(newest) < first:
            return
        fleet.advance(30)


@pytest.fixture(scope="module")
def lakes(tmp_path_factory):
    """Fill one lake incrementally and one at once; return both, and a rebuilt copy of the first."""
    folder = tmp_path_factory.mktemp("identical")
    bits, whole = folder / "bits", folder / "whole"
    chance = random.Random(7)
    stops = chance.sample(range(INCREMENTS), KILLS)
    killed = 0
    with service(routers=ROUTERS, days=1, seed=3, speed=0, scenario="late-data") as fleet:
        env = environment(bits, fleet.url)
        for number in range(INCREMENTS):
            fleet.advance(chance.uniform(600, 4 * 3600))
            if number in stops:
                killed += kill_after(chance.uniform(1.5, 2.5), "ingest", env=env)
            run("ingest", env=env)
            if number in stops:
                killed += kill_after(chance.uniform(4, 8), "build", env=env)
            if number in stops or number % BUILD_EVERY == 0:
                run("build", env=env)
        fleet.advance(SWEEP.total_seconds())  # the next load finds what arrived too late for others
        advance_to_quiet(fleet)
        for part in (bits, whole):
            run("ingest", env=environment(part, fleet.url))
            run("build", env=environment(part, fleet.url))
    again = folder / "again"
    shutil.copytree(bits / "lake", again, ignore=shutil.ignore_patterns("dbt"))
    build_marts(again)
    sys.stdout.write(f"{INCREMENTS} increments, {killed} processes killed\n")
    assert killed >= KILLS
    return bits / "lake", whole / "lake", again


def test_marts_built_incrementally_equal_those_of_one_build(lakes):
    bits, _, again = lakes

    assert content(bits) == content(again)


def test_marts_of_a_lake_filled_incrementally_equal_those_of_a_lake_filled_at_once(lakes):
    bits, whole = ({k: v for k, v in content(i).items() if k not in POLLED} for i in lakes[:2])
    rows = sum(count for [(count, _)] in bits.values())
    sys.stdout.write(f"{len(bits)} marts with {rows:,} rows\n")

    assert bits == whole
