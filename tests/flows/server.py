"""A Prefect server in processes of its own, asked over HTTP, for tests that start and kill them."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS = 300

SERVE = ("-m", "fleetlake", "prefect-server")
SET_UP = ("-m", "fleetlake", "prefect-setup")
WORK = ("-m", "fleetlake", "worker")


@dataclass(frozen=True)
class Server:
    """A Prefect server, and the settings of processes that work with it."""

    api: str
    environment: dict[str, str]

    @property
    def password(self) -> str:
        """Return the password that the server made, as its clients send it."""
        return (Path(self.environment["PREFECT_HOME"]) / "fleetlake-auth").read_text().strip()

    def call(self, method: str, path: str, **request: Any) -> httpx.Response:
        """Return the answer to somebody who knows the password."""
        user, _, password = self.password.partition(":")
        return httpx.request(
            method, f"{self.api}/{path}", auth=(user, password), timeout=60, **request
        )

    def run(self, *arguments: str) -> str:
        """Run Python with these arguments to its end; return what it printed."""
        done = subprocess.run(
            [sys.executable, *arguments],
            env=self.environment,
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_SECONDS,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def running(self, *arguments: str, log: Path) -> Any:
        """Run Python with these arguments meanwhile."""
        return running(*arguments, environment=self.environment, log=log)

    def ask(self, path: str, **body: Any) -> list[dict[str, Any]]:
        """Return what the server lists."""
        answer = self.call("POST", f"{path}/filter", json=body)
        return answer.raise_for_status().json()

    def runs(self, flow: str) -> list[dict[str, Any]]:
        """Return the runs of a flow."""
        return self.ask("flow_runs", flows={"name": {"any_": [flow]}})

    def waiting(self, flow: str) -> list[dict[str, Any]]:
        """Return the runs of a flow that have not begun."""
        return [run for run in self.runs(flow) if run["state_type"] == "SCHEDULED"]

    def cancel(self, run: str) -> None:
        """Take a run that has not begun out of the queue."""
        wanted = {"state": {"type": "CANCELLED"}, "force": True}
        self.call("POST", f"flow_runs/{run}/set_state", json=wanted).raise_for_status()

    def is_healthy(self) -> bool:
        """Return whether the server answers."""
        try:
            return httpx.get(f"{self.api}/health").is_success
        except httpx.TransportError:
            return False


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


def server_at(folder: Path, settings: Mapping[str, str]) -> Server:
    """Return a server that is not started yet; its home is in `folder`, its port is free."""
    port = free_port()
    api = f"http://127.0.0.1:{port}/api"
    environment = {
        **{name: value for name, value in os.environ.items() if "AUTH_STRING" not in name},
        **settings,
        "PREFECT_HOME": str(folder / "prefect"),
        "PREFECT_API_URL": api,
        "PREFECT_SERVER_API_PORT": str(port),
        "PREFECT_SERVER_API_HOST": "127.0.0.1",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_SERVER_UI_ENABLED": "false",
        "DO_NOT_TRACK": "1",
    }
    return Server(api, environment)


def processes_of(home: Path) -> list[str]:
    """Return the processes that have a Prefect home in their environment, this one left out."""
    listed = subprocess.run(
        ["ps", "axeww", "-o", "pid=,args="], capture_output=True, text=True, check=True
    )
    of_home = [line for line in listed.stdout.splitlines() if f"PREFECT_HOME={home}" in line]
    return [line for line in of_home if int(line.split()[0]) != os.getpid()]


def wait_for(found: Callable[[], Any], patience: float = PATIENCE_SECONDS) -> Any:
    """Return what `found` returns once that is true."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        if result := found():
            return result
        time.sleep(0.5)
    raise AssertionError("waited in vain")


@contextmanager
def running(
    *arguments: str, environment: Mapping[str, str], log: Path
) -> Iterator["subprocess.Popen[bytes]"]:
    """Run Python with these arguments meanwhile; its whole group ends with it."""
    with log.open("ab") as out:
        process = subprocess.Popen(
            [sys.executable, *arguments],
            env=environment,
            cwd=ROOT,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
