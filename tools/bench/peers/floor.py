"""The floor: read the bytes from a bare socket and look only for the link to the next page."""

import json
import socket
import sys
from typing import BinaryIO
from urllib.parse import urlsplit


def body_of(stream: BinaryIO) -> bytes:
    """Return the body of the next response."""
    length = 0
    while (line := stream.readline()) != b"\r\n":
        if line.lower().startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    return stream.read(length)


def next_of(body: bytes) -> str | None:
    """Return the link to the next page, found without decoding the page."""
    end = b"{" + body[body.rindex(b'"meta":') : -1] + b"}"
    link: str | None = json.loads(end)["meta"]["next"]
    return link


def take(url: str, resource: str) -> int:
    """Read every page and return the total size of the bodies, in bytes."""
    taken, link = 0, f"{url}/api/v2/{resource}/?limit=500"
    address = urlsplit(url)
    with (
        socket.create_connection((address.hostname, address.port)) as connection,
        connection.makefile("rb") as stream,
    ):
        while link:
            target = link.removeprefix(url)
            connection.sendall(f"GET {target} HTTP/1.1\r\nHost: bench\r\n\r\n".encode())
            body = body_of(stream)
            taken += len(body)
            link = next_of(body)
    return taken


if __name__ == "__main__":
    sys.stdout.write(json.dumps({"bytes": take(*sys.argv[1:3])}))
