"""Backups made while loads go on, killed at random, restored, and compared with the truth.

`make backup-test N=20` runs the same proof at full count.
"""

import os
import random
import shutil
import sys
from datetime import datetime
from pathlib import Path

import pytest

from fleetlake.care.backups.backup_target import BackupTarget
from tests.support.processes import UNSETTLED, environment, fleetlake, kill_after, service, start
from tests.test_crash import compare

ROUNDS = int(os.environ.get("BACKUP_TEST_ROUNDS", "2"))
LIVES_SECONDS = (0.3, 1.5)
"""A backup of so small a lake starts within the first and seldom lasts longer than the second."""


@pytest.mark.release
@pytest.mark.proof
@pytest.mark.xdist_group("processes")
def test_a_backup_made_or_killed_during_loads_restores_a_lake_that_loses_and_doubles_nothing(
    tmp_path: Path,
) -> None:
    """Each round loses the machine: load and backup are killed, and only the target is left."""
    chance, target = random.Random(3), str(tmp_path / "backups")
    rows = doubles = losses = killed = 0
    made: set[str] = set()
    with service(routers=6, days=1) as fleet:
        env = environment(tmp_path, fleet.url)
        assert fleetlake("ingest", "groups", env=env).returncode == 0
        assert fleetlake("backup", target, env=env).returncode == 0
        for number in range(ROUNDS):
            with start("ingest", env=env) as load:
                if number % 2:  # every other round ends with a complete backup under load
                    kept = fleetlake("backup", target, env=env)
                    assert kept.returncode == 0, kept.stderr
                life = chance.uniform(*LIVES_SECONDS) if number else LIVES_SECONDS[0]
                killed += kill_after(life, "backup", target, env=env)
                load.kill()
            made |= {*BackupTarget(target).stamps()}
            shutil.rmtree(tmp_path / "lake")
            back = fleetlake("restore", target, env=env)
            assert back.returncode == 0, back.stderr
            fleet.advance(chance.uniform(60, 7200))
            now = datetime.fromisoformat(fleet.state()["now"])
            last = fleetlake("ingest", env=env, timeout=600)
            assert last.returncode == 0, last.stderr
            found = compare(fleet, env, (now - UNSETTLED).isoformat())
            rows, doubles, losses = rows + found[0], doubles + found[1], losses + found[2]
    sys.stdout.write(
        f"{ROUNDS} rounds, {killed} backups killed, {len(made)} complete; {rows:,} rows compared, "
        f"{losses} lost, {doubles} doubled\n"
    )

    assert killed > 0
    assert rows > 1000 * ROUNDS
    assert (losses, doubles) == (0, 0)
