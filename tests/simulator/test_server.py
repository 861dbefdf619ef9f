import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection

import httpx
import pytest

from tests.simulator.sections import section
from tests.simulator.service import keys


@contextmanager
def running(*options: str) -> Iterator[tuple[subprocess.Popen, str]]:
    """Start `python -m fleetlake.simulator`; give the process and the address it prints."""
    command = [sys.executable, "-m", "fleetlake.simulator", "--port", "0", "--speed", "0", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with process:
        try:
            word, _, address = process.stdout.readline().strip().partition(" ")
            assert word == "ready"
            yield process, address
        finally:
            process.terminate()


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with running("--routers", "20", "--days", "2") as (_, address):
        yield address


@section("Simulator: server")
def test_server_says_ready_answers_and_ends_cleanly_on_a_signal():
    for number in (signal.SIGTERM, signal.SIGINT):
        with running("--routers", "5", "--days", "1") as (process, address):
            with httpx.Client(base_url=address, headers=keys()) as client:
                assert client.get("/api/v2/routers/").status_code == 200
            process.send_signal(number)

            assert process.wait(timeout=20) == 0
            assert process.stderr.read() == ""


@section("Simulator: server")
def test_server_listens_on_the_loopback_address_only(address: str):
    assert address.startswith("http://127.0.0.1:")


@section("Observed: Rates and failures")
@pytest.mark.parametrize("fault", ["reset", "truncate"])
def test_broken_connection_on_a_real_socket(address: str, fault):
    with httpx.Client(base_url=address, headers=keys()) as client:
        client.put("/sim/faults", json={fault: 1})
        try:
            with pytest.raises(httpx.TransportError) as caught:
                client.get("/api/v2/alerts/?limit=100")
        finally:
            client.put("/sim/faults", json={fault: 0})
        assert client.get("/api/v2/alerts/?limit=100").status_code == 200

    assert ("complete message body" in str(caught.value)) == (fault == "truncate")


@section("Simulator: server")
def test_dates_of_answers_are_the_simulated_clocks():
    with running("--routers", "5", "--now", "2031-01-02T03:04:05", "--days", "1") as (_, address):
        date = httpx.get(f"{address}/api/v2/products/", headers=keys()).headers["date"]

    assert date == "Thu, 02 Jan 2031 03:04:05 GMT"


@section("Simulator: server")
def test_connection_is_kept_alive(address: str):
    connection = HTTPConnection(address.removeprefix("http://"))
    with closing(connection):
        ports = []
        for _ in range(2):
            connection.request("GET", "/api/v2/products/?limit=1", headers=keys())
            assert connection.getresponse().read()
            ports.append(connection.sock.getsockname()[1])

    assert ports[0] == ports[1]


@section("Simulator: for people")
def test_front_page_shows_fleet_clock_calls_and_how_to_connect(address: str):
    httpx.get(f"{address}/api/v2/groups/", headers=keys())

    page = httpx.get(address)

    assert page.headers["content-type"].startswith("text/html")
    for words in ("20, of which", "groups", "portal-key", "simulator-token", "failover_episodes"):
        assert words in page.text


@section("Simulator: for people")
def test_settings_to_export_can_be_printed():
    command = [sys.executable, "-m", "fleetlake.simulator", "--port", "8765", "--print-env"]

    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()

    assert "export FLEETLAKE_BASE_URL=http://127.0.0.1:8765/api/v2/" in lines
    assert "export FLEETLAKE_MGR_API_KEY=admin-key" in lines
    assert "export FLEETLAKE_CLOCK=service" in lines
    assert len(lines) == 8


@section("Simulator: for people")
@pytest.mark.parametrize(
    "options",
    [
        ["--scenario", "nonsense"],
        ["--routers", "0"],
        ["--now", "soon"],
        ["--port", "0", "--print-env"],
    ],
)
def test_bad_option_is_explained(options):
    command = [sys.executable, "-m", "fleetlake.simulator", *options]

    ended = subprocess.run(command, capture_output=True, text=True, check=False)

    assert ended.returncode == 2
    assert "Traceback" not in ended.stderr
    assert options[0].lstrip("-").split("-")[0] in ended.stderr
