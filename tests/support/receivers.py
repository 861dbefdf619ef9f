"""Receivers as processes of their own, and a simulated service that pushes to them."""

import secrets
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from fleetsim.alert_types import ALERT_TYPES
from tests.support.processes import MINUTES, Service, command, environment
from tests.support.service import keys

STEP_SECONDS = 120.0
"""Simulated time between two looks at what became due."""

WHOLE_ACCOUNT = [10157]


@dataclass
class ReceiverProcess:
    """`fleetlake receive` as a process, which is started again after a kill on the same port.

    What it logs is appended to `log`. `secret` is that of its destination.
    """

    env: dict[str, str]
    log: Path
    secret: str
    port: int = 0
    _process: subprocess.Popen[str] | None = field(default=None, repr=False)

    @property
    def pid(self) -> int:
        """Return the id of the running process."""
        assert self._process is not None
        return self._process.pid

    @property
    def url(self) -> str:
        """Return the address that a destination names."""
        return f"http://127.0.0.1:{self.port}/push"

    def start(self) -> None:
        """Start the process; return when it accepts connections."""
        words = ("receive", "--port", str(self.port))
        with self.log.open("a") as errors:
            self._process = subprocess.Popen(
                command(*words), env=self.env, stdout=subprocess.PIPE, stderr=errors, text=True
            )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line.startswith("ready"), self.log.read_text()
        self.port = int(line.rpartition(":")[2])

    def drainer(self) -> int | None:
        """Return the process that drains the journal, if it runs."""
        found = _children(self.pid)
        return next(
            (child for child in found if "fleetlake.receiving.drain" in _words(child)), None
        )

    def kill(self) -> None:
        """Kill the receiver and start it again, as systemd does."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        self._close()
        self.start()

    def stop(self) -> int:
        """Ask the receiver to end, and return its exit code."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        code = self._process.wait(60)
        self._close()
        return code

    def end(self) -> None:
        """Kill what still runs."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()
            self._close()

    def _close(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        self._process.stdout.close()


@contextmanager
def receivers(
    folder: Path, journals: Sequence[Path], url: str = "", **settings: Any
) -> Iterator[list[ReceiverProcess]]:
    """Run a receiver for each journal folder, each with a secret of its own, until the block ends.

    The first one has its secret from a file, the others from the environment.
    """
    made = []
    for number, journal in enumerate(journals):
        secret = secrets.token_urlsafe(24)
        file = folder / "secrets" / f"of-receiver-{number}"
        file.parent.mkdir(exist_ok=True)
        given = {"push_secrets": secret} if number else {}
        if not number:
            file.touch(0o600)
            file.write_text(f"{secret}\n")
        env = environment(
            folder, url, push_journal=journal, push_secrets_file=file, **given, **settings
        )
        log = folder / "logs" / f"receiver-{number}"
        log.parent.mkdir(exist_ok=True)
        made.append(ReceiverProcess(env, log, secret))
    try:
        for one in made:
            one.start()
        yield made
    finally:
        for one in made:
            one.end()


def subscribe(fleet: Service, made: Sequence[ReceiverProcess]) -> None:
    """Let the service push every type to one of the receivers, and each third type to all."""
    names = list(ALERT_TYPES)
    for number, one in enumerate(made):
        chosen = [
            name
            for place, name in enumerate(names)
            if place % 3 == 0 or place % len(made) == number
        ]
        destination = _create(
            fleet,
            "alert_push_destinations",
            {
                "name": f"receiver {number}",
                "endpoint": {"url": one.url},
                "authentication": {"secret": one.secret},
            },
        )
        rule = {
            "schedule": None,
            "filter_criteria": {"alert_type__in": chosen},
            "http_destinations": [destination["destination_config_id"]],
            "associated_accounts": WHOLE_ACCOUNT,
        }
        _create(fleet, "alert_rules", rule)


def _create(fleet: Service, resource: str, body: dict[str, Any]) -> dict[str, Any]:
    done = httpx.post(f"{fleet.url}/api/v2/{resource}/", json=body, headers=keys(), timeout=MINUTES)
    assert done.is_success, done.text
    found: dict[str, Any] = done.json()
    return found


def advance(fleet: Service, seconds: float) -> None:
    """Move the service's clock in small steps, and return when each step's pushes were tried."""
    while seconds > 0:
        fleet.advance(min(STEP_SECONDS, seconds))
        seconds -= STEP_SECONDS


def deliver_all(fleet: Service) -> None:
    """Stop the faults, and move the service's clock until no message waits for a retry."""
    fleet.faults(push_duplicate=0, push_reset=0, push_timeout=0, push_truncate=0)
    for _ in range(60):
        advance(fleet, STEP_SECONDS)
        if not fleet.state()["pushes"]["waiting"]:
            return
        fleet.advance(3600)
    raise AssertionError("messages still wait for their receivers")


def arguments_of(pids: Sequence[int]) -> list[str]:
    """Return the command lines of processes and of their children, as everybody can read them."""
    return [_words(one) for pid in pids for one in (pid, *_children(pid))]


def environment_of(pid: int) -> str:
    """Return the environment that a process was started with."""
    return Path(f"/proc/{pid}/environ").read_text()


def _children(pid: int) -> list[int]:
    try:
        found = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except OSError:
        return []
    return [int(child) for child in found.split()]


def _words(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""
