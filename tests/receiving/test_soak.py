"""Two receivers, and everything around them killed at random: each alert is in the lake once.

A simulated service pushes to both receivers, with cut, repeated and shuffled deliveries, while
polls and maintenance of the same lake run beside them. `make soak-receive ALERTS=50000 KILLS=100`
runs the same proof at full size.
"""

import os
import random
import signal
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import pytest

from fleetlake.lake import open_lake
from fleetlake.receiving.journal_table import journal_bytes, require_whole
from tests.support.comparison import (
    Compared,
    repeated_confirmations,
    wait_until_drained,
    word_of,
)
from tests.support.leaks import scan
from tests.support.processes import UNSETTLED, Service, environment, fleetlake, service, start
from tests.support.receivers import (
    ReceiverProcess,
    advance,
    arguments_of,
    deliver_all,
    environment_of,
    receivers,
    subscribe,
)

ALERTS = int(os.environ.get("SOAK_ALERTS", "1500"))
KILLS = int(os.environ.get("SOAK_KILLS", "6"))
FOLDERS = int(os.environ.get("SOAK_FOLDERS", "1"))
SEED = int(os.environ.get("SOAK_SEED", "1"))

ROUTERS = 2000
ALERTS_PER_SECOND = ROUTERS * 8.2 / 86400
"""What this fleet raises, in simulated time."""

FAULTS = {
    "push_concurrency": 8,
    "push_reorder": True,
    "push_duplicate": 0.05,
    "push_reset": 0.01,
    "push_timeout": 0.01,
    "push_truncate": 0.005,
}
WRITES = {
    "ingest": ("ingest", "alerts", "alert_push_destinations", "alert_rules"),
    "maintain": ("maintain", "--keep-days", "0"),
}
RECEIVERS, DRAINERS = ("receiver 1", "receiver 2"), ("drainer 1", "drainer 2")
VICTIMS = (*RECEIVERS, *DRAINERS, *WRITES)
LONGEST_WAIT = 5.0
SEARCHED = ("lake", "logs", "state")


class Writes:
    """Polls and maintenance of the lake, in turn, each as a process."""

    def __init__(self, env: dict[str, str]) -> None:
        self._env = env
        self._running = start(*WRITES["ingest"], env=env)
        self._next = "maintain"
        self.ended = Counter[int]()

    def start(self, name: str | None = None) -> None:
        """Start the next command if none runs; with a name, wait for the end and start that one."""
        if name is None and self._running.poll() is None:
            return
        self.ended[self._running.wait(300)] += 1
        name = name or self._next
        self._next = "maintain" if name == "ingest" else "ingest"
        self._running = start(*WRITES[name], env=self._env)

    def kill(self) -> bool:
        """Kill the running command; return whether there was one."""
        is_alive = self._running.poll() is None
        self._running.kill()
        return is_alive

    def wait(self) -> None:
        """Wait for the running command."""
        self.ended[self._running.wait(300)] += 1

    @property
    def pid(self) -> int:
        return self._running.pid


class Soak:
    """One lake with two receivers, and who was killed."""

    def __init__(self, fleet: Service, made: list[ReceiverProcess], env: dict[str, str]) -> None:
        self.fleet, self.receivers = fleet, made
        self.writes = Writes(env)
        self.kills: Counter[str] = Counter()
        self.arguments: set[str] = set()
        self.environments: set[str] = set()
        self.chance = random.Random(SEED)
        self._bag: list[str] = []
        self._victim = ""
        self._usual_seconds = 1.0

    def round(self, seconds: float) -> None:
        """Push what is raised in some simulated seconds, and kill one process meanwhile."""
        with ThreadPoolExecutor(1) as pool:
            self._choose()
            began = time.monotonic()
            pushing = pool.submit(advance, self.fleet, seconds)
            time.sleep(self.chance.uniform(0, self._usual_seconds))
            is_killed = self._kill()
            pushing.result()
        if self._victim not in WRITES:
            self._usual_seconds = min(LONGEST_WAIT, time.monotonic() - began)
        if is_killed:
            self.kills[self._victim] += 1
            self._victim = ""

    def _choose(self) -> None:
        """Choose who is killed, each kind equally often; one that was not alive comes again."""
        if not self._victim:
            if not self._bag:
                self._bag = self.chance.sample(VICTIMS, len(VICTIMS))
            self._victim = self._bag.pop()
        self.writes.start(self._victim if self._victim in WRITES else None)

    def _kill(self) -> bool:
        self._look()
        if self._victim in RECEIVERS:
            self.receivers[RECEIVERS.index(self._victim)].kill()
            return True
        if self._victim in WRITES:
            return self.writes.kill()
        pid = self.receivers[DRAINERS.index(self._victim)].drainer()
        if pid is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                return True
        return False

    def _look(self) -> None:
        """Note what everybody on this machine can see of the processes."""
        self.arguments.update(arguments_of([one.pid for one in self.receivers] + [self.writes.pid]))
        for one in self.receivers:
            if (pid := one.drainer()) is not None:
                with suppress(OSError):
                    self.environments.add(environment_of(pid))


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a soak ended with: three comparisons with the service's word, and what was left."""

    pushed: Compared
    polled: Compared
    shown: Compared
    exit_codes: list[int]
    left: list[int]


def end_of(soak: Soak, lake: Path, folders: list[Path], env: dict[str, str]) -> Outcome:
    """Deliver what waits, compare, poll once more, compare again, and stop the receivers."""
    fleet = soak.fleet
    deliver_all(fleet)
    while len(word_of(fleet).answered) < ALERTS:
        advance(fleet, 600)
    soak.writes.wait()
    wait_until_drained(lake, folders)
    pushed = word_of(fleet).pushed(lake)
    advance(fleet, 600)
    wait_until_drained(lake, folders)
    last = fleetlake(*WRITES["ingest"], env=env)
    assert last.returncode == 0, last.stderr
    settled = datetime.fromisoformat(fleet.state()["now"]) - UNSETTLED
    word = word_of(fleet)
    return Outcome(
        pushed=pushed,
        polled=word.polled(lake, settled),
        shown=word.shown(lake, settled),
        exit_codes=[one.stop() for one in soak.receivers],
        left=[journal_bytes(folder) for folder in {*folders}],
    )


@pytest.mark.release
@pytest.mark.xdist_group("processes")
def test_alerts_pushed_to_killed_receivers_are_in_the_lake_once(tmp_path: Path) -> None:
    folders = [tmp_path / f"journals-{number % FOLDERS}" for number in range(2)]
    round_seconds = ALERTS / ALERTS_PER_SECOND / KILLS
    began = time.monotonic()
    with (
        service(routers=ROUTERS, days=0.05, speed=0, seed=SEED) as fleet,
        receivers(tmp_path, folders, fleet.url) as made,
    ):
        env = environment(tmp_path, fleet.url)
        subscribe(fleet, made)
        fleet.faults(**FAULTS)
        soak = Soak(fleet, made, env)
        while soak.kills.total() < KILLS:
            soak.round(round_seconds)
            if soak.kills.total() >= KILLS // 2:
                fleet.faults(push_body="objects")
        outcome = end_of(soak, tmp_path / "lake", folders, env)
    secrets = [one.secret for one in made]
    leaks = scan([tmp_path / name for name in SEARCHED], texts=secrets, ids=[])
    leaks_of_journals = scan(folders, texts=secrets, ids=[])
    logs = b"".join(path.read_bytes() for path in (tmp_path / "logs").iterdir())
    sys.stdout.write(
        f"{len({*folders})} journal folder(s), {soak.kills.total()} kills {dict(soak.kills)} in "
        f"{time.monotonic() - began:.0f} s; pushed: {outcome.pushed}; raw.alerts: "
        f"{outcome.polled}; stg_alerts: {outcome.shown}; searched for the secrets: "
        f"{leaks.files + leaks_of_journals.files:,} files, {leaks.bytes / 1e6:.0f} MB, "
        f"{len(soak.arguments)} command lines; polls and maintenance ended with "
        f"{dict(soak.writes.ended)}\n"
    )

    assert outcome.pushed.alerts >= ALERTS
    assert outcome.pushed.is_equal, outcome.pushed
    assert outcome.polled.is_equal, outcome.polled
    assert outcome.shown.is_equal, outcome.shown
    assert repeated_confirmations(tmp_path / "lake") == 0
    assert set(soak.kills) == {*VICTIMS}
    assert set(soak.writes.ended) <= {0, -signal.SIGKILL}
    assert outcome.exit_codes == [0, 0], logs.decode()
    assert max(outcome.left) < 1_000_000  # what is drained was deleted
    with open_lake(tmp_path / "lake", read_only=True) as lake:
        assert lake.rows("select summary from meta.events where kind = 'journal'") == []
    for folder in folders:
        require_whole(folder, {}, is_full=True)
    assert b"POST /push 200" in logs
    assert leaks.leaks == leaks_of_journals.leaks == []
    seen = " ".join((*soak.arguments, *soak.environments))
    assert "fleetlake.receiving.drain" in seen
    assert not [one for one in secrets if one in seen]
