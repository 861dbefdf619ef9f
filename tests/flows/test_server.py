"""A real server with worker and automations: set up twice, it watches and raises the alarm.

Everything of Prefect runs in processes of its own; this one only asks the server over HTTP.
"""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS = 120

pytestmark = [pytest.mark.integration, pytest.mark.xdist_group("prefect")]

SET_UP = "import typer; from fleetlake.cli.prefect_setup import prefect_setup as f; typer.run(f)"
WORK = "import typer; from fleetlake.cli.worker import worker as f; typer.run(f)"
LOAD_AND_WATCH = """
from flows.groups import Group
from flows.ingest import ingest
from flows.maintain import retention_watch
ingest(Group.ACTIVITY)
retention_watch()
"""


@dataclass(frozen=True)
class Server:
    """A Prefect server, and the settings of processes that work with it."""

    api: str
    environment: dict[str, str]

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

    def ask(self, path: str, **body: Any) -> list[dict[str, Any]]:
        """Return what the server lists."""
        return httpx.post(f"{self.api}/{path}/filter", json=body).raise_for_status().json()

    def runs(self, flow: str) -> list[dict[str, Any]]:
        """Return the runs of a flow."""
        return self.ask("flow_runs", flows={"name": {"any_": [flow]}})


def wait_for(found: Callable[[], Any]) -> Any:
    """Return what `found` returns once that is true."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        if result := found():
            return result
        time.sleep(0.5)
    raise AssertionError("waited in vain")


def is_healthy(api: str) -> bool:
    try:
        return httpx.get(f"{api}/health").is_success
    except httpx.TransportError:
        return False


@contextmanager
def running(*arguments: str, environment: dict[str, str], log: Path) -> Iterator[None]:
    """Run Python with these arguments meanwhile; its whole group ends with it."""
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, *arguments],
            env=environment,
            cwd=ROOT,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            yield
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


@pytest.fixture
def server(remote_sim, tmp_path) -> Iterator[Server]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    api = f"http://127.0.0.1:{port}/api"
    environment = {
        **os.environ,
        **remote_sim.environment(tmp_path),
        "PREFECT_HOME": str(tmp_path / "prefect"),
        "PREFECT_API_URL": api,
        "PREFECT_SERVER_API_PORT": str(port),
        "PREFECT_SERVER_API_HOST": "127.0.0.1",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_SERVER_UI_ENABLED": "false",
        "DO_NOT_TRACK": "1",
    }
    command = ("-m", "prefect", "server", "start")
    with running(*command, environment=environment, log=tmp_path / "server.log"):
        wait_for(lambda: is_healthy(api))
        yield Server(api, environment)


def test_set_up_twice_is_set_up_once_and_a_stream_at_risk_raises_the_alarm(server, tmp_path):
    said = server.run("-c", SET_UP)
    deployments = {d["name"]: d["id"] for d in server.ask("deployments")}
    automations = sorted(a["name"] for a in server.ask("automations"))
    server.run("-c", SET_UP)

    wanted = yaml.safe_load((ROOT / "prefect.yaml").read_text())["deployments"]
    assert set(deployments) == {deployment["name"] for deployment in wanted}
    assert {d["name"]: d["id"] for d in server.ask("deployments")} == deployments
    assert sorted(a["name"] for a in server.ask("automations")) == automations
    assert set(automations) >= {"fleetlake-alarm", "fleetlake-dead-runs"}
    assert "fleetlake-mgr-api-key" in said
    assert "admin-key" not in said

    # The service's clock stands in June: its records are long forgotten by now.
    server.run("-c", LOAD_AND_WATCH)
    wait_for(lambda: server.runs("alarm"))
    wait_for(lambda: server.runs("build_marts"))  # which follows the load
    with running("-c", WORK, environment=server.environment, log=tmp_path / "worker.log"):
        wait_for(lambda: [r for r in server.runs("alarm") if r["state_name"] == "Alarm"])

    [alarm, *_] = server.runs("alarm")
    assert alarm["parameters"]["endpoint"] == "activity_logs"
    assert alarm["parameters"]["event"] == "fleetlake.retention.at_risk"
    assert "forgotten by the service" in alarm["state"]["message"]
