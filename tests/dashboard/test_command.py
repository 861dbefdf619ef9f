"""The command `fleetlake dashboard` as a process."""

import signal
import socket
import subprocess
import sys

import httpx
import pytest

from tests.support.processes import environment

pytestmark = pytest.mark.proof


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_command_announces_its_address_and_ends_well_while_a_page_listens(
    world, tmp_path, number
):
    command = [sys.executable, "-m", "fleetlake", "dashboard", "--port", "0"]
    settings = environment(tmp_path, published=world.published)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=settings) as process:
        url = process.stdout.readline().removeprefix("ready ").strip()
        page = httpx.get(f"{url}/now")
        with httpx.stream("GET", f"{url}/events") as events:
            told = next(events.iter_lines())
            process.send_signal(number)
            code = process.wait(120)

    assert url.startswith("http://127.0.0.1:")
    assert page.status_code == 200
    assert told == "event: snapshot"
    assert code == 0


def test_silent_connections_do_not_keep_a_reader_from_its_page(world, tmp_path):
    command = [sys.executable, "-m", "fleetlake", "dashboard", "--port", "0"]
    settings = environment(tmp_path, published=world.published)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=settings) as process:
        url = process.stdout.readline().removeprefix("ready ").strip()
        address = ("127.0.0.1", int(url.rpartition(":")[2]))
        connections = [socket.create_connection(address, 20) for _ in range(600)]
        page, rows = httpx.get(f"{url}/now"), httpx.get(f"{url}/api/now/summary")
        for connection in connections:
            connection.close()
        process.terminate()

    assert (page.status_code, rows.status_code) == (200, 200)


def test_a_taken_port_is_reported_in_one_paragraph(world, tmp_path):
    command = [sys.executable, "-m", "fleetlake", "dashboard", "--port"]
    settings = environment(tmp_path, published=world.published)
    with subprocess.Popen(
        [*command, "0"], stdout=subprocess.PIPE, text=True, env=settings
    ) as process:
        port = process.stdout.readline().strip().rpartition(":")[2]
        second = subprocess.run(
            [*command, port], capture_output=True, text=True, env=settings, check=False
        )
        process.terminate()

    assert second.returncode == 2
    assert "Choose another port" in second.stderr
    assert "Traceback" not in second.stderr
