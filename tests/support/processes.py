"""The simulated service and the command as separate processes, for tests that kill them."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx

from tests.support.sim import AT_EACH_LOAD, KEYS

ROOT = Path(__file__).parents[2]
OPTIONAL = ROOT / "src/fleetlake/endpoints/optional"


@dataclass
class Service:
    """A simulated service that listens on this machine."""

    url: str

    def truth(self, resource: str, until: str = "") -> list[dict[str, Any]]:
        """Return every record that ever existed, as the simulator generated it."""
        answer = self.call("GET", f"truth/{resource}", params={"until": until} if until else {})
        return [json.loads(line, strict=False) for line in answer.text.splitlines()]

    def advance(self, seconds: float) -> None:
        """Move the service's clock."""
        self.call("POST", "clock", json={"advance_seconds": seconds})

    def stop_clock(self) -> None:
        """Stop the service's clock, so that the compared records are those that were read."""
        self.call("POST", "clock", json={"speed": 0})

    def faults(self, **rates: Any) -> None:
        """Make responses fail at these rates."""
        self.call("PUT", "faults", json=rates)

    def state(self) -> dict[str, Any]:
        """Return the service's own count of calls, its clock and its faults."""
        state: dict[str, Any] = self.call("GET", "state").json()
        return state

    def call(self, method: str, path: str, **request: Any) -> httpx.Response:
        """Return the response of the simulator itself, which a busy machine may delay."""
        address = f"{self.url}/sim/{path}"
        return httpx.request(method, address, timeout=MINUTES, **request).raise_for_status()


MINUTES = 600.0


UNSETTLED = timedelta(seconds=75)
"""What a load may leave to the next one. A record appears within a minute, and on a busy machine a
client may estimate the service's clock too early, by as much as its slowest response."""


@contextmanager
def service(**options: Any) -> Iterator[Service]:
    """Run the simulated service until the end of the block."""
    command = [sys.executable, "-m", "fleetsim", "--port", "0"]
    command += [part for name, value in options.items() for part in (f"--{name}", str(value))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith("ready "), "the simulator did not start"
            yield Service(line.removeprefix("ready ").strip())
        finally:
            process.terminate()


def environment(folder: Path, url: str = "", **settings: Any) -> dict[str, str]:
    """Return an environment whose lake is in `folder`, without this machine's settings."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("FLEETLAKE_")}
    own = {
        **({"base_url": f"{url}/api/v2/", "v3_base_url": f"{url}/api/v3"} if url else {}),
        **KEYS,
        "lake": folder / "lake",
        "published": folder / "published",
        "reports": folder / "reports",
        "state": folder / "state",
        "push_journal": folder / "push-journal",
        "push_secrets_file": folder / "push-secrets",
        "calls_per_minute": 0,
        "clock": "service",
        **{f"freshness__{name}": hours for name, hours in AT_EACH_LOAD.items()},
        **settings,
    }
    named = {f"FLEETLAKE_{name.upper()}": str(value) for name, value in own.items()}
    return inherited | named | {"PYTHONWARNINGS": "error::DeprecationWarning:fleetlake"}


def command(*words: str) -> list[str]:
    """Return the command line of a fleetlake command."""
    return [sys.executable, "-m", "fleetlake", *words]


def fleetlake(
    *words: str, env: dict[str, str], cwd: Path | None = None, timeout: float = 300
) -> subprocess.CompletedProcess[str]:
    """Run a fleetlake command to its end."""
    return subprocess.run(
        command(*words),
        env=env,
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def start(*words: str, env: dict[str, str]) -> subprocess.Popen[bytes]:
    """Start a fleetlake command in the background."""
    return subprocess.Popen(
        command(*words), env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def kill_after(seconds: float, *words: str, env: dict[str, str]) -> bool:
    """Start a fleetlake command and kill it; return whether it was still alive then."""
    with start(*words, env=env) as process:
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            return True
    return False


def query(sql: str, env: dict[str, str]) -> list[dict[str, Any]]:
    """Return the rows of a query, through the command that users type."""
    done = fleetlake("query", sql, "--format", "json", env=env)
    assert done.returncode == 0, done.stderr
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    return rows


DESCRIBED = ROOT / "tests/simulator/described.toml"
"""A list of every sort, as a user may describe them."""


def own_project(folder: Path, *files: Path) -> Path:
    """Make a project in a folder with copies of these endpoint files; return their folder."""
    endpoints = folder / "endpoints"
    endpoints.mkdir(parents=True)
    (folder / "fleetlake.toml").touch()
    for file in files:
        shutil.copy(file, endpoints)
    return endpoints
