"""A server that is told to stop before it takes signals itself stops as well."""

import signal

import pytest
import uvicorn

from fleetlake.dashboard.dashboard_server import serve_dashboard
from fleetlake.receiving.push_server import ServerOptions
from fleetlake.receiving.push_server import serve as serve_receiver
from fleetlake.settings import Settings
from fleetsim.options import SimulatorOptions
from fleetsim.server import serve as serve_simulator


@pytest.mark.parametrize("serves", ["receiver", "dashboard", "simulator"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_just_before_the_server_runs_is_not_lost(tmp_path, monkeypatch, serves, number):
    stops: list[bool] = []
    handlers = {one: signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)}

    def run(server: uvicorn.Server, **_: object) -> None:
        signal.raise_signal(number)
        stops.append(server.should_exit)

    monkeypatch.setattr(uvicorn.Server, "run", run)
    monkeypatch.setattr("fleetsim.server._make_collection_rare", lambda: None)
    journal, secrets = tmp_path / "journal", tmp_path / "secrets"
    try:
        match serves:
            case "receiver":
                settings = Settings(push_journal=journal, push_secrets_file=secrets)
                serve_receiver(settings, ServerOptions(drainer=None))
            case "dashboard":
                serve_dashboard(tmp_path, port=0, ready=lambda _: None)
            case "simulator":
                serve_simulator(SimulatorOptions(routers=1, days=1, port=0))
    finally:
        for one, handler in handlers.items():
            signal.signal(one, handler)

    assert stops == [True]
