"""Three workers on one shared lake, two of them killed at random, repeatedly.

`make crash-test-machines N=30` runs the same proof for longer.
"""

import os
import random
import subprocess
import sys
import time
from datetime import datetime

from tests.support.processes import UNSETTLED, environment, fleetlake, service, start
from tests.test_crash import compare

ROUNDS = int(os.environ.get("CRASH_TEST_ROUNDS", "4"))
WORKERS = 3


def run_and_kill(env: dict[str, str], chance: random.Random) -> int:
    """Start three loads, kill two of them at a random moment; return how many were alive then."""
    workers = [start("ingest", env=env) for _ in range(WORKERS)]
    began = time.monotonic()
    killed = 0
    for worker, after in zip(workers[:2], sorted(chance.uniform(1, 8) for _ in "ab"), strict=True):
        try:
            worker.wait(max(0.01, began + after - time.monotonic()))
        except subprocess.TimeoutExpired:
            worker.kill()
            worker.wait()
            killed += 1
    assert workers[2].wait(300) == 0
    return killed


def test_workers_killed_at_random_lose_and_duplicate_nothing(tmp_path, catalog):
    chance = random.Random(8)
    with service(routers=12, days=3) as fleet:
        env = environment(
            tmp_path, fleet.url, lake=f"postgres:{catalog}", lake_files=tmp_path / "files"
        )
        fleet.faults(status_500=0.02, status_429=0.02)
        killed = 0
        for _ in range(ROUNDS):
            killed += run_and_kill(env, chance)
            fleet.advance(chance.uniform(600, 7200))
        fleet.faults(status_500=0, status_429=0)
        now = datetime.fromisoformat(fleet.state()["now"])
        last = fleetlake("ingest", env=env)
        rows, doubles, losses = compare(fleet, env, (now - UNSETTLED).isoformat())
    sys.stdout.write(
        f"{rows:,} rows compared, {ROUNDS} rounds of {WORKERS} workers, {killed} killed, "
        f"{doubles} duplicates, {losses} losses\n"
    )

    assert last.returncode == 0, last.stderr
    assert killed > 0
    assert rows > 10_000
    assert (doubles, losses) == (0, 0)
