"""A server of list pages that is never the bottleneck: it encodes its records before it starts.

It reads the simulator's own records (`/sim/truth/<resource>`, one JSON document a line) from a
file and joins them once, newest first, so that any page is a slice of one long text. It supports
only what clients use for alerts and activity logs: a limit, a cursor, and time bounds.
`GET /served` returns what it served since the last call, and the CPU time for it.

    python -m tools.bench.page_server RECORDS.ndjson RESOURCE COUNT LATENCY_MS [new-members]
"""

import asyncio
import json
import sys
import time
from bisect import bisect_left
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from email.utils import formatdate
from itertools import accumulate
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit
from uuid import UUID

GREGORIAN = datetime(1582, 10, 15, tzinfo=UTC)
CURSORS = {"alerts": "created_at_timeuuid__lt", "activity_logs": "action__id__lt"}


@dataclass
class Served:
    """What was served since the last `GET /served`."""

    calls: int = 0
    records: int = 0
    bytes: int = 0
    cpu_seconds: float = 0.0


def ticks_of(text: str) -> int:
    """Return the microseconds of a version-1 UUID's time, or of an ISO instant, on one scale."""
    if "T" in text:
        return (datetime.fromisoformat(text) - GREGORIAN) // timedelta(microseconds=1)
    return UUID(text).time // 10


class Records:
    """The records of one resource, newest first, and the position of each time among them."""

    def __init__(self, lines: list[bytes], resource: str) -> None:
        self.resource = resource
        known = [(*self._time_and_cursor(line), line) for line in lines]
        known.sort(key=lambda record: -record[0])
        self._negated = [-ticks for ticks, _, _ in known]  # ascending, for bisect
        self._cursors = [cursor for _, cursor, _ in known]
        self._places = {cursor: place for place, cursor in enumerate(self._cursors)}
        self._text = memoryview(b",".join(line for _, _, line in known))
        self._starts = [0, *accumulate(len(line) + 1 for _, _, line in known)]
        # The service's clock is slightly ahead of the newest record, so that record has settled.
        newest = GREGORIAN + timedelta(microseconds=known[0][0], minutes=5)
        self.date = formatdate(newest.timestamp(), usegmt=True)

    def _time_and_cursor(self, line: bytes) -> tuple[int, str]:
        record = json.loads(line, strict=False)
        if self.resource == "alerts":
            return ticks_of(record["created_at_timeuuid"]), record["created_at_timeuuid"]
        return ticks_of(record["action"]["timestamp"]), record["action"]["id"]

    def page(self, query: dict[str, str]) -> tuple[int, memoryview, str | None]:
        """Return a page's number of records, their text, and the cursor of the next page."""
        limit = min(int(query.get("limit", "20")), 500)
        first, stop = self._range(query)
        end = min(first + limit, stop)
        if end <= first:
            return 0, self._text[:0], None
        text = self._text[self._starts[first] : self._starts[end] - 1]
        return end - first, text, self._cursors[end - 1] if end < stop else None

    def _range(self, query: dict[str, str]) -> tuple[int, int]:
        """Return the half-open range of positions within the query's bounds."""
        first, stop = 0, len(self._negated)
        for name, value in query.items():
            if name == "action__id__lt":
                first = max(first, self._places[value] + 1)
            elif name.endswith("__lt"):
                first = max(first, bisect_left(self._negated, 1 - ticks_of(value)))
            elif name.endswith("__gte"):
                stop = min(stop, bisect_left(self._negated, 1 - ticks_of(value)))
            elif name.endswith("__gt"):
                stop = min(stop, bisect_left(self._negated, -ticks_of(value)))
            elif name != "limit":
                raise ValueError(f"The page server does not know {name}.")
        return first, stop


class Answers(asyncio.Protocol):
    """HTTP/1.1 with keep-alive, reduced to what list clients need."""

    served = Served()
    cpu_before = 0.0

    def __init__(self, records: Records, latency_seconds: float) -> None:
        self._records, self._latency = records, latency_seconds
        self._received = b""

    def connection_made(self, transport: Any) -> None:
        """Store the connection."""
        self._transport = transport
        host, port = transport.get_extra_info("sockname")
        self._root = f"http://{host}:{port}"

    def data_received(self, data: bytes) -> None:
        """Respond to each complete request."""
        self._received += data
        while (end := self._received.find(b"\r\n\r\n")) >= 0:
            target = self._received[:end].split(b" ", 2)[1].decode()
            self._received = self._received[end + 4 :]
            if target == "/served":
                self._tell()
            elif self._latency:
                asyncio.get_running_loop().call_later(self._latency, self._answer, target)
            else:
                self._answer(target)

    def _tell(self) -> None:
        """Return what was served since the last call."""
        now = time.process_time()
        Answers.served.cpu_seconds = now - Answers.cpu_before
        self._send(json.dumps(asdict(Answers.served)).encode())
        Answers.served, Answers.cpu_before = Served(), now

    def _answer(self, target: str) -> None:
        parts = urlsplit(target)
        query = dict(parse_qsl(parts.query))
        count, text, cursor = 0, memoryview(b""), None
        if parts.path.endswith(f"/{self._records.resource}/"):
            count, text, cursor = self._records.page(query)
        following = self._next(parts.path, query, cursor)
        meta = {"limit": int(query.get("limit", "20")), "next": following}
        tail = f'],"meta":{json.dumps(meta)}}}'.encode()
        self._send(b'{"data":[', text, tail)
        Answers.served.calls += 1
        Answers.served.records += count
        Answers.served.bytes += len(b'{"data":[') + len(text) + len(tail)

    def _next(self, path: str, query: dict[str, str], cursor: str | None) -> str | None:
        """Return the link to the next page, with every other bound unchanged."""
        if cursor is None:
            return None
        # The values come from the client, so they are plain; only a plus sign needs escaping.
        following = query | {CURSORS[self._records.resource]: cursor}
        listed = "&".join(f"{name}={value}" for name, value in following.items())
        return f"{self._root}{path}?{listed.replace('+', '%2B')}"

    def _send(self, *body: bytes | memoryview) -> None:
        head = (
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
            f"Date: {self._records.date}\r\nContent-Length: {sum(map(len, body))}\r\n\r\n"
        )
        self._transport.writelines([head.encode(), *body])


async def serve(records: Records, latency_seconds: float) -> None:
    """Serve until the process ends."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: Answers(records, latency_seconds), "127.0.0.1", 0, backlog=256
    )
    port = server.sockets[0].getsockname()[1]
    sys.stdout.write(f"ready http://127.0.0.1:{port}\n")
    sys.stdout.flush()
    await server.serve_forever()


def with_new_members(line: bytes, number: int) -> bytes:
    """Return a record with two members more, as a newer release of the service may send.

    >>> with_new_members(b'{"id": 1}', 7)
    b'{"id": 1,"region":"us7","trace":{"request":7,"retried":false}}'
    """
    trace = b'{"request":%d,"retried":false}' % number
    return b'%s,"region":"us%d","trace":%s}' % (line.rstrip()[:-1], number % 9, trace)


def main() -> None:
    """Read the records and serve them."""
    path, resource, count, latency, *options = sys.argv[1:]
    lines = Path(path).read_bytes().split(b"\n")[: int(count)]
    if "new-members" in options:
        lines = [with_new_members(line, number) for number, line in enumerate(lines)]
    asyncio.run(serve(Records(lines, resource), float(latency) / 1000))


if __name__ == "__main__":
    main()
