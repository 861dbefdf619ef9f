"""Other ways to take the same pages, each a process of its own: `python -m tests.bench.peers`.

Each walks the list page by page, as one does without windows. They share no code with
fleetlake, so that its short cuts are not theirs.
"""

import json
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import orjson
import pyarrow as pa
import pyarrow.parquet as pq

HEADERS = ("X-PORTAL-API-ID", "X-PORTAL-API-KEY", "X-MGR-API-ID", "X-MGR-API-KEY")


def path_of(link: str) -> str:
    """Return the path and query of a link."""
    parts = urlsplit(link)
    return f"{parts.path}?{parts.query}"


def floor(url: str, resource: str) -> int:
    """Take the bytes off a bare socket and look only for the link to the next page."""
    host, port = urlsplit(url).hostname, urlsplit(url).port
    pages = 0
    target: str | None = f"/api/v2/{resource}/?limit=500"
    with socket.create_connection((host, port)) as connection, connection.makefile("rb") as stream:
        while target:
            connection.sendall(f"GET {target} HTTP/1.1\r\nHost: bench\r\n\r\n".encode())
            length = 0
            while (line := stream.readline()) != b"\r\n":
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            body = stream.read(length)
            meta = json.loads(b'{"meta":' + body[body.rindex(b'"meta":') + 7 :])["meta"]
            target = path_of(meta["next"]) if meta["next"] else None
            pages += 1
    return pages


def pages_by_httpx(url: str, resource: str) -> Iterator[bytes]:
    """Yield the bodies of all pages."""
    target: str | None = f"/api/v2/{resource}/?limit=500"
    with httpx.Client(base_url=url, headers=dict.fromkeys(HEADERS, "bench")) as client:
        while target:
            body = client.get(target).content
            yield body
            meta = json.loads(b'{"meta":' + body[body.rindex(b'"meta":') + 7 :])["meta"]
            target = path_of(meta["next"]) if meta["next"] else None


def download(url: str, resource: str) -> int:
    """Download with httpx and keep nothing."""
    return sum(1 for _ in pages_by_httpx(url, resource))


def script(url: str, resource: str) -> int:
    """Do what a plain script does: httpx, orjson, pyarrow, one Parquet file; no promise kept."""
    rows = [
        {
            name: orjson.dumps(value).decode() if isinstance(value, dict | list) else value
            for name, value in record.items()
        }
        for body in pages_by_httpx(url, resource)
        for record in orjson.loads(body)["data"]
    ]
    with tempfile.TemporaryDirectory() as folder:
        pq.write_table(pa.Table.from_pylist(rows), Path(folder) / "table.parquet")
    return len(rows)


PEERS: dict[str, Callable[[str, str], int]] = {
    "socket": floor,
    "httpx": download,
    "script": script,
}

if __name__ == "__main__":
    PEERS[sys.argv[1]](*sys.argv[2:4])
