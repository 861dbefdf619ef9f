"""Benchmark of the simulator: `make bench-simulator` prints a table.

The server runs in its own process and the client is a bare socket, so the figures measure the
server. Figures for one core use the server's CPU time, which other work on the machine does not
distort; wall-clock figures are printed beside them.
"""

import os
import resource
import signal
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import orjson
from rich.console import Console
from rich.table import Table

from fleetsim.callers import PORTAL_ID, PORTAL_KEY

_ALERT_PAGES: Final = 1500
_SAMPLE_PAGES: Final = 200
_START_LIMIT_S: Final = 5.0
_MEMORY_LIMIT_MB: Final = 1024
_PAGES_A_SECOND: Final = 300
_SAMPLE_LIMIT_MS: Final = 5.0
_TICK_S: Final = 1 / os.sysconf("SC_CLK_TCK")
_HEADERS: Final = (
    f"X-PORTAL-API-ID: {PORTAL_ID}\r\nX-PORTAL-API-KEY: {PORTAL_KEY}\r\n"
    "X-MGR-API-ID: admin-id\r\nX-MGR-API-KEY: admin-key\r\n"
)


@dataclass(frozen=True)
class MeasuredServer:
    """A running simulator."""

    process: subprocess.Popen[str]
    port: int
    seconds_to_start: float

    def cpu_seconds(self) -> float:
        """Return the CPU time the server has used, in whole ticks of the kernel's clock."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="ascii").split()
        return (int(fields[13]) + int(fields[14])) * _TICK_S

    def cpu_seconds_since(self, before: float) -> float:
        """Return the CPU time used since `cpu_seconds` gave `before`: one tick or more.

        A small fleet's pages can take less than a tick, and a rate needs more than zero.
        """
        return max(self.cpu_seconds() - before, _TICK_S)

    def peak_megabytes(self) -> float:
        """Return the server's peak memory."""
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        return int(status.split("VmHWM:")[1].split()[0]) / 1024


@contextmanager
def running(routers: int, days: int) -> Iterator[MeasuredServer]:
    """Start a simulator, and stop it afterwards."""
    command = [sys.executable, "-P", "-m", "fleetsim", "--port", "0"]
    options = ["--routers", str(routers), "--days", str(days), "--speed", "0"]
    begun = time.perf_counter()
    with subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            port = int(process.stdout.readline().rpartition(":")[2])
            yield MeasuredServer(process, port, time.perf_counter() - begun)
        finally:
            process.send_signal(signal.SIGTERM)


class KeepAliveClient:
    """A minimal HTTP client on one keep-alive connection."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._host = f"127.0.0.1:{port}"
        self._buffer = bytearray()

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def get(self, target: str) -> bytes:
        """Return the body of an answer to GET."""
        request = f"GET {target} HTTP/1.1\r\nHost: {self._host}\r\n{_HEADERS}\r\n"
        self._socket.sendall(request.encode())
        while (end := self._buffer.find(b"\r\n\r\n")) < 0:
            self._buffer += self._socket.recv(1 << 16)
        head = bytes(self._buffer[:end]).lower()
        length = int(head.split(b"content-length: ")[1].split(b"\r\n")[0])
        del self._buffer[: end + 4]
        while len(self._buffer) < length:
            self._buffer += self._socket.recv(1 << 20)
        body = bytes(self._buffer[:length])
        del self._buffer[:length]
        return body


def walk(client: KeepAliveClient, target: str, pages: int) -> int:
    """Read at most `pages` pages by their `next` links; return how many were read."""
    for number in range(pages):
        tail = client.get(target)[-600:]
        following = tail.rpartition(b'"next":"')[2].split(b'"')[0].decode()
        if not following.startswith("http"):
            return number + 1
        target = following[following.index("/api/") :]
    return pages


def _alert_pages(table: Table) -> None:
    """Walk alerts of 10,000 routers, requesting each page for the first time."""
    with running(10_000, 14) as server, closing(KeepAliveClient(server.port)) as client:
        client.get("/api/v2/alerts/?limit=1")
        begun, cpu = time.perf_counter(), server.cpu_seconds()
        pages = walk(client, "/api/v2/alerts/?limit=500", _ALERT_PAGES)
        wall, used = time.perf_counter() - begun, server.cpu_seconds_since(cpu)
        what = f"pages of 500 alerts per second on one core, 10,000 routers ({pages} new pages)"
        rate = pages / used
        _row(table, what, f"{rate:.0f}", f">= {_PAGES_A_SECOND}", rate >= _PAGES_A_SECOND)
        _row(table, "the same in wall time", f"{pages / wall:.0f}", "", ok=True)
        _sample_pages(table, server, client)


def _sample_pages(table: Table, server: MeasuredServer, client: KeepAliveClient) -> None:
    """Measure pages of 500 samples of one device, requesting each device once."""
    page = orjson.loads(client.get("/api/v2/net_devices/?limit=500&mode=wan&type=mdm&fields=id"))
    devices = [record["id"] for record in page["data"]][:_SAMPLE_PAGES]
    for name in ("net_device_usage_samples", "net_device_signal_samples"):
        cpu, times = server.cpu_seconds(), []
        for device in devices:
            begun = time.perf_counter()
            client.get(f"/api/v2/{name}/?net_device={device}&limit=500")
            times.append((time.perf_counter() - begun) * 1000)
        each = server.cpu_seconds_since(cpu) / len(devices) * 1000
        what = f"ms on one core for a page of 500 {name} of one device"
        _row(table, what, f"{each:.1f}", f"< {_SAMPLE_LIMIT_MS:g}", each < _SAMPLE_LIMIT_MS)
        middle = statistics.median(times)
        _row(table, "the same in wall time (median)", f"{middle:.1f}", "", ok=True)


def _large_fleet(table: Table) -> None:
    """Measure start-up and memory with 100,000 routers and 35 days of history."""
    with running(100_000, 35) as server, closing(KeepAliveClient(server.port)) as client:
        seconds = server.seconds_to_start
        what = "seconds until 100,000 routers with 35 days answer"
        begun = time.perf_counter()
        client.get("/api/v2/products/")
        seconds += time.perf_counter() - begun
        _row(table, what, f"{seconds:.1f}", f"< {_START_LIMIT_S:g}", seconds < _START_LIMIT_S)
        for target in ("routers", "net_devices", "alerts", "failovers", "locations"):
            client.get(f"/api/v2/{target}/?limit=500")
        walk(client, "/api/v2/alerts/?limit=500", 200)
        memory = server.peak_megabytes()
        what = "peak megabytes after pages of routers, interfaces, alerts, failovers, locations"
        _row(table, what, f"{memory:.0f}", f"< {_MEMORY_LIMIT_MB}", memory < _MEMORY_LIMIT_MB)


def _row(table: Table, what: str, measured: str, wanted: str, ok: bool) -> None:
    met = "" if not wanted else "yes" if ok else "NO"
    table.add_row(what, measured, wanted, met)


def main() -> None:
    """Print each measurement beside its target."""
    table = Table("measured", "value", "target", "met", title="The simulator on one core")
    _alert_pages(table)
    _large_fleet(table)
    Console(width=130).print(table)
    used = resource.getrusage(resource.RUSAGE_SELF)
    Console().print(f"client CPU: {used.ru_utime + used.ru_stime:.1f} s")


if __name__ == "__main__":
    main()
