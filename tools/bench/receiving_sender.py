"""A sender of signed pushes that is cheap on purpose: it writes bytes to raw sockets."""

import asyncio
import json
import os
import time
from datetime import UTC, datetime
from pathlib import Path

from tests.support.pushing import signature

TICKS = os.sysconf("SC_CLK_TCK")


def request(number: int, secret: str) -> bytes:
    """Return one push as bytes: a typical alert of 400 bytes, just raised, each another one."""
    now = datetime.now(UTC).isoformat()
    body = json.dumps(
        {
            "type": "failover_event",
            "router": number % 10_000 + 1,
            "account": 10157,
            "created_at_timeuuid": f"{number:08x}-0000-11f1-8080-808080808080",
            "created_at": now,
            "detected_at": now,
            "friendly_info": f"The router {number} failed over from Ethernet to LTE.",
            "info": {"from": "ethernet-wan", "to": "mdm-1d2f3a", "reason": "link down" * 8},
        }
    ).encode()
    head = (
        f"POST /push HTTP/1.1\r\nHost: localhost\r\nX-PORTAL-Signature: "
        f"{signature(body, secret)}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def number_of(push_id: str) -> int:
    """Return the number of a push by its id in the lake."""
    return int(push_id[:8], 16)


class Sender:
    """Sends pushes over any number of connections, each with one at a time, until a time.

    `sent_at` and `milliseconds` are of each message, by its number: when it was sent (monotonic
    seconds), and how long its answer took.
    """

    def __init__(self, port: int, secret: str, *, until: float, first: int, rate: float) -> None:
        self._port, self._secret, self._until, self._rate = port, secret, until, rate
        self._began = time.monotonic()
        self._first = self._next = first
        self.sent_at: dict[int, float] = {}
        self.milliseconds: dict[int, float] = {}

    async def run(self) -> None:
        """Use one connection until the time is over."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        while time.monotonic() < self._until:
            number, self._next = self._next, self._next + 1
            if self._rate:
                due = self._began + (number - self._first) / self._rate
                await asyncio.sleep(max(0.0, due - time.monotonic()))
            message = request(number, self._secret)
            began = self.sent_at[number] = time.monotonic()
            writer.write(message)
            answer = await reader.readuntil(b"stored\n")
            self.milliseconds[number] = (time.monotonic() - began) * 1000
            assert answer.startswith(b"HTTP/1.1 200 OK"), answer
        writer.close()

    async def run_all(self, connections: int) -> None:
        """Use several connections until the time is over."""
        await asyncio.gather(*(self.run() for _ in range(connections)))


def percentile(values: list[float], part: float) -> float:
    """Return the smallest value that a part of all values does not exceed."""
    return sorted(values)[min(len(values) - 1, int(len(values) * part))]


def cpu_seconds(pid: int) -> float:
    """Return the CPU time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def memory_mb(pid: int) -> float:
    """Return the memory that a process has for itself, without files that it maps, in MB."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Anonymous:"):
            return int(line.split()[1]) / 1024
    raise ValueError(f"process {pid} tells nothing of its memory")
