"""A Prefect server in separate processes, used over HTTP, for tests that start and kill them."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil

from tests.support.waiting import wait_for

ROOT = Path(__file__).parents[2]
WAIT_SECONDS = 300

SERVE = ("-m", "fleetlake", "prefect", "server")
SET_UP = ("-m", "fleetlake", "prefect", "setup")
WORK = ("-m", "fleetlake", "prefect", "worker")


@dataclass(frozen=True)
class Server:
    """A Prefect server, and the settings of processes that work with it."""

    api: str
    environment: dict[str, str]

    @property
    def password(self) -> str:
        """Return the password that the server created, as its clients send it."""
        return (Path(self.environment["PREFECT_HOME"]) / "fleetlake-auth").read_text().strip()

    def call(self, method: str, path: str, **request: Any) -> httpx.Response:
        """Return the response to a client with the password, or with the login in `auth`.

        Prefect's server answers 503 while another transaction writes its database. Its own client
        repeats the request then, and so does this.
        """
        user, _, password = self.password.partition(":")
        options = {"auth": (user, password), "timeout": WAIT_SECONDS, **request}

        def response() -> httpx.Response | None:
            given = httpx.request(method, f"{self.api}/{path}", **options)
            return None if given.status_code == httpx.codes.SERVICE_UNAVAILABLE else given

        return wait_for(response)

    def run(self, *arguments: str) -> str:
        """Run Python with these arguments to its end; return what it printed."""
        done = subprocess.run(
            [sys.executable, *arguments],
            env=self.environment,
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
            timeout=WAIT_SECONDS,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def running(self, *arguments: str, log: Path) -> Any:
        """Run Python with these arguments in the background."""
        return running(*arguments, environment=self.environment, log=log)

    def post(self, path: str, **body: Any) -> Any:
        """Return what the server answers to a request that it accepts."""
        return self.call("POST", path, json=body).raise_for_status().json()

    def ask(self, path: str, **body: Any) -> list[dict[str, Any]]:
        """Return what the server lists."""
        listed: list[dict[str, Any]] = self.post(f"{path}/filter", **body)
        return listed

    def runs(self, flow: str) -> list[dict[str, Any]]:
        """Return the runs of a flow."""
        return self.ask("flow_runs", flows={"name": {"any_": [flow]}})

    def waiting(self, flow: str) -> list[dict[str, Any]]:
        """Return the runs of a flow that have not started, without those that a schedule made."""
        return [
            run
            for run in self.runs(flow)
            if run["state_type"] == "SCHEDULED" and not run["auto_scheduled"]
        ]

    def cancel(self, run: str) -> None:
        """Remove a run that has not started from the queue."""
        self.post(f"flow_runs/{run}/set_state", state={"type": "CANCELLED"}, force=True)

    def is_healthy(self) -> bool:
        """Return whether the server responds."""
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


def processes_of(home: Path) -> list[psutil.Process]:
    """Return the processes whose Prefect home is in a folder, except this one."""
    return [
        process
        for process in psutil.process_iter(["environ"])
        if (process.info["environ"] or {}).get("PREFECT_HOME", "").startswith(str(home))
        and process.pid != os.getpid()
    ]


@contextmanager
def running(
    *arguments: str, environment: Mapping[str, str], log: Path
) -> Iterator["subprocess.Popen[bytes]"]:
    """Run Python with these arguments in the background; end its whole process group with it."""
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
                process.wait(WAIT_SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
