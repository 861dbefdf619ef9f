import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest
import typer
from typer.testing import CliRunner

from fleetsim.command import simulate
from tests.simulator.sections import section
from tests.support.service import keys


@contextmanager
def running(*options: str) -> Iterator[tuple[subprocess.Popen, str]]:
    """Start `python -m fleetsim`; yield the process and the address that it prints."""
    command = [sys.executable, "-m", "fleetsim", "--port", "0", "--speed", "0", *options]
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
    with running("--routers", "20", "--days", "2", "--now", "2031-01-02T03:04:05") as (_, address):
        yield address


@section("Simulator: server")
def test_server_prints_ready_responds_and_ends_cleanly_on_ctrl_c():
    with running("--routers", "5", "--days", "1") as (process, address):
        with httpx.Client(base_url=address, headers=keys()) as client:
            assert client.get("/api/v2/routers/").status_code == 200
        process.send_signal(signal.SIGINT)

        assert process.wait(timeout=120) == 0
        assert process.stderr.read() == ""


@section("Simulator: server")
def test_server_listens_on_the_loopback_address_only(address: str):
    assert address.startswith("http://127.0.0.1:")


@section("Simulator: server")
@pytest.mark.parametrize("host", ["site.example", "127.0.0.1.site.example:80", "10.0.0.1"])
def test_server_answers_to_the_names_of_its_own_machine_only(address: str, host: str):
    answers = [
        httpx.get(f"{address}{path}", headers={**keys(), "Host": host})
        for path in ("/", "/sim/state", "/api/v2/routers/")
    ]

    assert [answer.status_code for answer in answers] == [421] * 3
    assert not any("data" in answer.text for answer in answers)


@pytest.mark.proof
@section("Simulator: server")
def test_sigterm_ends_the_server_while_it_takes_a_long_step_of_the_clock():
    body = {"name": "n", "endpoint": {"url": "http://127.0.0.1:1/"}}
    body |= {"authentication": {"secret": "s"}}
    rule = {"schedule": "daily", "filter_criteria": {"alert_type__in": ["connection_state"]}}
    rule |= {"associated_accounts": [10157]}
    with (
        running("--routers", "2000", "--days", "1") as (process, address),
        httpx.Client(base_url=address, headers=keys(), timeout=60) as client,
    ):
        made = client.post("/api/v2/alert_push_destinations/", json=body).json()
        rule["http_destinations"] = [made["destination_config_id"]]
        assert client.post("/api/v2/alert_rules/", json=rule).status_code == 201
        with pytest.raises(httpx.ReadTimeout):
            client.post("/sim/clock", json={"advance_seconds": 3000 * 86400}, timeout=0.5)
        assert client.get("/api/v2/products/").status_code == 200
        process.terminate()

        assert process.wait(timeout=20) == 0
        assert process.stderr.read() == ""


@section("Simulator: server")
def test_server_survives_clients_that_disconnect_and_ends_cleanly_on_sigterm():
    head = "".join(f"{name}: {value}\r\n" for name, value in keys().items())
    requests = (
        f"POST /api/v2/users/ HTTP/1.1\r\nHost: x\r\n{head}Content-Length: 100\r\n\r\n{{",
        "POST /sim/clock HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{",
        "GET /sim/truth/net_device_usage_samples HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET /sim/truth/alerts HTTP/1.1\r\nHost: x\r\n\r\n",
        f"GET /api/v2/alerts/?limit=500 HTTP/1.1\r\nHost: x\r\n{head}\r\n",
    )
    with running("--routers", "60", "--days", "7") as (process, address):
        port = int(address.rpartition(":")[2])
        for request in requests:
            with socket.create_connection(("127.0.0.1", port)) as client:
                client.sendall(request.encode())
                if request.startswith("GET"):
                    client.recv(1)
        assert httpx.get(f"{address}/api/v2/products/", headers=keys()).status_code == 200
        process.terminate()

        assert process.wait(timeout=120) == 0
        assert process.stderr.read() == ""


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
def test_date_header_is_the_simulated_time(address: str):
    date = httpx.get(f"{address}/api/v2/products/", headers=keys()).headers["date"]

    assert date == "Thu, 02 Jan 2031 03:04:05 GMT"


def simulate_with(*options: str) -> tuple[int, str]:
    """Return the exit status and the output of `fleetsim` with options that start no server."""
    app = typer.Typer(add_completion=False)
    app.command()(simulate)
    done = CliRunner().invoke(app, [*options])
    assert done.exception is None or isinstance(done.exception, SystemExit)
    return done.exit_code, done.output


@section("Simulator: for people")
def test_settings_to_export_can_be_printed():
    status, output = simulate_with("--port", "8765", "--print-env")

    lines = output.splitlines()
    assert status == 0
    assert "export FLEETLAKE_BASE_URL=http://127.0.0.1:8765/api/v2/" in lines
    assert "export FLEETLAKE_MGR_API_KEY=admin-key" in lines
    assert "export FLEETLAKE_CLOCK=service" in lines
    assert len(lines) == 8


@section("Simulator: for people")
def test_bad_option_is_explained():
    for option, *others in (
        ["--scenario", "nonsense"],
        ["--routers", "0"],
        ["--now", "soon"],
        ["--port", "0", "--print-env"],
    ):
        status, output = simulate_with(option, *others)
        assert status == 2
        assert option.lstrip("-") in output
