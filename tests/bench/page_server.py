"""A server of list pages that cannot be the bottleneck: its records are bytes before it starts.

It reads the simulator's own records (`/sim/truth/<resource>`, one JSON document a line) from a
file, sorts them newest first, and answers a page by joining slices. It knows just what clients
ask of alerts and activity logs: a limit, a cursor, and bounds of time.

    python -m tests.bench.page_server RECORDS.ndjson PATH LATENCY_MS
"""

import asyncio
import json
import sys
from bisect import bisect_left
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import formatdate
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import UUID

GREGORIAN = datetime(1582, 10, 15, tzinfo=UTC)


def ticks_of_timeuuid(text: str) -> int:
    """Return the microseconds of a version-1 UUID's embedded time."""
    return UUID(text).time // 10


def ticks_of_instant(text: str) -> int:
    """Return the same scale's microseconds of an ISO instant."""
    return (datetime.fromisoformat(text) - GREGORIAN) // timedelta(microseconds=1)


class Records:
    """The records of one resource, newest first, and where each time lies among them."""

    def __init__(self, lines: list[bytes], resource: str) -> None:
        self.resource = resource
        of_alerts = resource == "alerts"
        self._scale: Callable[[str], int] = ticks_of_timeuuid if of_alerts else ticks_of_instant
        keyed = []
        for line in lines:
            record = json.loads(line, strict=False)
            if of_alerts:
                keyed.append((ticks_of_timeuuid(record["created_at_timeuuid"]), line))
            else:
                keyed.append((ticks_of_instant(record["action"]["timestamp"]), line))
        keyed.sort(key=lambda pair: -pair[0])
        self._negated = [-ticks for ticks, _ in keyed]  # ascending, for bisect
        self._lines = [line for _, line in keyed]
        self._places: dict[str, int] = {}
        if not of_alerts:
            for place, line in enumerate(self._lines):
                self._places[str(json.loads(line, strict=False)["action"]["id"])] = place
        # The newest record has settled: the service's clock is a little ahead of it.
        newest = GREGORIAN + timedelta(microseconds=keyed[0][0], minutes=5)
        self.date = formatdate(newest.timestamp(), usegmt=True)

    def __len__(self) -> int:
        return len(self._lines)

    def page(self, query: dict[str, str]) -> tuple[list[bytes], str | None]:
        """Return a page's records and the cursor of the next, or None at the end."""
        limit = min(int(query.get("limit", "20")), 500)
        first, end = 0, len(self._lines)
        for name, value in query.items():
            if name == "action__id__lt":
                first = max(first, self._places[value] + 1)
            elif name.endswith("__lt"):
                first = max(first, bisect_left(self._negated, -self._scale(value) + 1))
            elif name.endswith("__gte"):
                end = min(end, bisect_left(self._negated, -self._scale(value) + 1))
        lines = self._lines[first : min(first + limit, end)]
        is_last = first + limit >= end
        return lines, None if is_last or not lines else self._cursor_of(lines[-1])

    def _cursor_of(self, line: bytes) -> str:
        record = json.loads(line, strict=False)
        return str(
            record["created_at_timeuuid"] if self.resource == "alerts" else record["action"]["id"]
        )


class Answers(asyncio.Protocol):
    """HTTP/1.1 with keep-alive, and no more of it than clients of lists need."""

    calls = 0

    def __init__(self, records: Records, latency_seconds: float) -> None:
        self._records, self._latency = records, latency_seconds
        self._received = b""

    def connection_made(self, transport: Any) -> None:
        """Keep the connection."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer each request that is whole."""
        self._received += data
        while (end := self._received.find(b"\r\n\r\n")) >= 0:
            target = self._received[:end].split(b" ", 2)[1].decode()
            self._received = self._received[end + 4 :]
            if self._latency:
                loop = asyncio.get_running_loop()
                loop.call_later(self._latency, self._answer, target)
            else:
                self._answer(target)

    def _answer(self, target: str) -> None:
        parts = urlsplit(target)
        if parts.path == "/calls":
            self._send(str(Answers.calls).encode())
            Answers.calls = 0
            return
        Answers.calls += 1
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        lines, cursor = [], None
        if parts.path.endswith(f"/{self._records.resource}/"):
            lines, cursor = self._records.page(query)
        following = "null"
        if cursor is not None:
            name = "action__id__lt" if "action__id" in parts.query else None
            name = name or (
                "created_at_timeuuid__lt"
                if self._records.resource == "alerts"
                else "action__id__lt"
            )
            rest = "&".join(f"{k}={v}" for k, v in query.items() if k != name)
            following = f'"http://127.0.0.1{parts.path}?{rest}&{name}={cursor}"'
        limit = query.get("limit", "20")
        meta = f'],"meta":{{"limit":{limit},"next":{following}}}}}'
        self._send(b'{"data":[', b",".join(lines), meta.encode())

    def _send(self, *body: bytes) -> None:
        length = sum(map(len, body))
        head = (
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
            f"Date: {self._records.date}\r\nContent-Length: {length}\r\n\r\n"
        )
        self._transport.writelines([head.encode(), *body])


async def serve(records: Records, latency_seconds: float) -> None:
    """Serve until the process is ended."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: Answers(records, latency_seconds), "127.0.0.1", 0, backlog=256
    )
    port = server.sockets[0].getsockname()[1]
    sys.stdout.write(f"ready http://127.0.0.1:{port}\n")
    sys.stdout.flush()
    await server.serve_forever()


def main() -> None:
    """Read the records and serve them."""
    path, resource, latency = sys.argv[1:4]
    records = Records(Path(path).read_bytes().splitlines(), resource)
    asyncio.run(serve(records, float(latency) / 1000))


if __name__ == "__main__":
    main()
