"""Fixtures for the flows: one Prefect server and one simulated service for this folder's tests.

The tests that need Prefect import it themselves, never while tests are collected: the import takes
seconds, and reads its settings from the environment when it is first imported.
"""
# ruff: noqa: PLC0415 - for that reason

import gc
import os
import sys
import warnings
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path

import pytest

from tests.flows.alone import Alone, put_alone
from tests.flows.server import ROOT, SERVE, Server, processes_of, server_at
from tests.support.processes import Service, service
from tests.support.sim import AT_EACH_LOAD
from tests.support.waiting import wait_for

if str(ROOT) not in sys.path:  # as Prefect does, which loads flows from the project's folder
    sys.path.insert(0, str(ROOT))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run tests that need the server first: it sets what Prefect reads only once."""
    places = [place for place, item in enumerate(items) if "flows" in item.path.parts]
    in_order = sorted(
        (items[place] for place in places), key=lambda item: not item.get_closest_marker("proof")
    )
    for place, item in zip(places, in_order, strict=True):
        items[place] = item


class RemoteSim(Service):
    """A simulated service in a separate process, and the settings that load it."""

    def now(self) -> datetime:
        return datetime.fromisoformat(self.state()["now"]).astimezone(UTC)

    def environment(self, folder: Path) -> dict[str, str]:
        """Return settings that load this service into a lake in a folder."""
        return {
            "FLEETLAKE_BASE_URL": f"{self.url}/api/v2/",
            "FLEETLAKE_PORTAL_API_ID": "portal-id",
            "FLEETLAKE_PORTAL_API_KEY": "portal-key",
            "FLEETLAKE_MGR_API_ID": "admin-id",
            "FLEETLAKE_MGR_API_KEY": "admin-key",
            "FLEETLAKE_LAKE": str(folder / "lake"),
            "FLEETLAKE_PUBLISHED": str(folder / "published"),
            "FLEETLAKE_REPORTS": str(folder / "reports"),
            "FLEETLAKE_STATE": str(folder / "state"),
            "FLEETLAKE_CALLS_PER_MINUTE": "0",
            "FLEETLAKE_CLOCK": "service",
            **{f"FLEETLAKE_FRESHNESS__{name.upper()}": "0" for name in AT_EACH_LOAD},
        }


@pytest.fixture(scope="package")
def remote_sim() -> Iterator[RemoteSim]:
    """Start a service of five routers and one day whose clock stands still."""
    with service(routers=5, days=1, speed=0, now="2026-06-15T12:00:00Z") as started:
        yield RemoteSim(started.url)


@pytest.fixture(scope="package")
def prefect_server(
    tmp_path_factory: pytest.TempPathFactory, remote_sim: RemoteSim
) -> Iterator[Server]:
    """Run a Prefect server for this folder; none of its processes is left at the end.

    It uses CPU even when idle, so it ends before the tests of other folders begin.
    """
    if "prefect" in sys.modules:
        pytest.fail("Prefect was imported before its settings were made for tests.")
    home = tmp_path_factory.mktemp("prefect")
    server = server_at(home, remote_sim.environment(home))
    with pytest.MonkeyPatch.context() as patch:
        for name, value in server.environment.items():
            if name.startswith(("PREFECT_", "DO_NOT_TRACK")):
                patch.setenv(name, value)
        patch.setenv("PREFECT_LOGGING_LEVEL", os.environ.get("PREFECT_LOGGING_LEVEL", "ERROR"))
        with server.running(*SERVE, log=home / "server.log"):
            wait_for(server.is_healthy)
            patch.setenv("PREFECT_API_AUTH_STRING", server.password)
            from flows import retries

            # Before the flows are imported, which copy this setting: what fails here fails at once.
            retries.RETRIES["retries"] = 0
            yield server
            deliver_logs_and_events()
        with warnings.catch_warnings():
            # Prefect's clients leave their connections to the garbage collector.
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()
    wait_for(lambda: not processes_of(home))


def deliver_logs_and_events() -> None:
    """Send what Prefect's threads have buffered; at exit, when they would, the server is gone."""
    from prefect.events.worker import EventsWorker
    from prefect.logging.handlers import APILogWorker

    for worker in (APILogWorker, EventsWorker):
        worker.drain_all(timeout=30)


@pytest.fixture
def worker_environment(
    remote_sim: RemoteSim, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """Give this process the settings of a worker; return the folder they point to."""
    for name, value in remote_sim.environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    return tmp_path


@pytest.fixture(scope="session")
def prefect_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let Prefect be imported without a server: it finds none, starts none, and stores nothing."""
    with pytest.MonkeyPatch.context() as patch:
        if "prefect" not in sys.modules:
            patch.setenv("PREFECT_HOME", str(tmp_path_factory.mktemp("prefect-home")))
            patch.setenv("PREFECT_SERVER_ALLOW_EPHEMERAL_MODE", "false")
            patch.setenv("PREFECT_LOGGING_TO_API_ENABLED", "false")
            patch.setenv("DO_NOT_TRACK", "1")
        import_module("prefect")
        yield


@pytest.fixture
def alone(prefect_home: None, monkeypatch: pytest.MonkeyPatch) -> Alone:
    """Let flows be called as functions; return what they would send to a server."""
    del prefect_home
    return put_alone(monkeypatch)
