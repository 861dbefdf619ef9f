"""Connections to receivers. A general HTTP client takes ten times the CPU time per message."""

import asyncio
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import httpx

_PORTS: Final = {"http": 80, "https": 443}


@dataclass(frozen=True)
class PushTarget:
    """Where a URL is posted to."""

    is_tls: bool
    host: str
    port: int
    authority: str
    path: str


@lru_cache(maxsize=64)
def target_of(url: str) -> PushTarget:
    """Return the target of an http or https URL. Raises: httpx.InvalidURL, UnicodeError."""
    parsed = httpx.URL(url)
    return PushTarget(
        is_tls=parsed.scheme == "https",
        host=parsed.host,
        port=parsed.port or _PORTS[parsed.scheme],
        authority=parsed.netloc.decode("ascii"),
        path=parsed.raw_path.decode("ascii"),
    )


def request_head(target: PushTarget, headers: Mapping[str, str], length: int) -> bytes:
    """Return the first lines of a POST of a body with `length` bytes."""
    lines = [f"POST {target.path} HTTP/1.1", f"Host: {target.authority}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, f"Content-Length: {length}", "", ""]).encode()


class Connection:
    """One connection to a receiver."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self._may_stay_open = True

    @property
    def is_reusable(self) -> bool:
        """True if another request may be sent."""
        is_open = not (self.reader.at_eof() or self.writer.is_closing())
        return self._may_stay_open and is_open

    async def post(self, target: PushTarget, headers: Mapping[str, str], body: bytes) -> int:
        """Send a request and return the status of its response. Raises: OSError, EOFError."""
        self._may_stay_open = False
        self.writer.write(request_head(target, headers, len(body)) + body)
        await self.writer.drain()
        status, length = await self._read_head()
        while status < httpx.codes.OK:  # an interim response
            status, length = await self._read_head()
        if length is not None:
            await self.reader.readexactly(length)
            self._may_stay_open = True
        return status

    async def _read_head(self) -> tuple[int, int | None]:
        """Return a response's status, and its length if it says so and stays open after it."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        named = dict(line.lower().split(":", 1) for line in lines if ":" in line)
        length = named.get("content-length", "").strip()
        stays = "close" not in named.get("connection", "") and first.startswith("HTTP/1.1")
        return int(first.split()[1]), int(length) if stays and length.isdigit() else None


async def connect(target: PushTarget) -> Connection:
    """Connect to a target. Raises: OSError."""
    context = _unverified() if target.is_tls else None
    return Connection(*await asyncio.open_connection(target.host, target.port, ssl=context))


@lru_cache(maxsize=1)
def _unverified() -> ssl.SSLContext:
    """Return a context without checks: receivers under test have self-signed certificates."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
