"""Sends signed POSTs to a destination (service contract, Signing of pushed messages).

A general HTTP client takes ten times the CPU time per message, so the connections are made here.
Some deliveries break, if a fault says so: the connection ends before the response is read. The
receiver may or may not have stored such a message; the sender counts it as failed.
"""

import asyncio
import hashlib
import hmac
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from http import HTTPStatus
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


SIGNATURE_HEADER: Final = "X-PORTAL-Signature"
_TIMEOUT_S: Final = 10.0

Sender = Callable[[str, bytes, Mapping[str, str]], Awaitable[str | None]]
"""Posts a body with headers to a URL. Returns None, or an error text."""


def sign(body: bytes, secret: str) -> str:
    """Return the hex SHA-256 HMAC of a body; an empty body counts as a single space.

    >>> sign(b"", "s") == sign(b" ", "s")
    True
    """
    return hmac.new(secret.encode(), body or b" ", hashlib.sha256).hexdigest()


class HttpSender:
    """Posts over HTTP or HTTPS; any response other than 2xx is a failure.

    Within `kept_alive`, connections are reused.
    """

    def __init__(self) -> None:
        self._idle: dict[PushTarget, list[Connection]] = {}
        self._keeps = False

    async def __call__(self, url: str, body: bytes, headers: Mapping[str, str]) -> str | None:
        """Post a body; return None, or an error text."""
        stage = "ConnectError"
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                target = target_of(url)
                connection = self._kept(target) or await connect(target)
                stage = "ReadError"
                status = await self._post(connection, target, body, headers)
        except TimeoutError:
            return f"{stage}: no response within {_TIMEOUT_S:g} s"
        except (OSError, EOFError, ValueError, IndexError) as error:
            return f"{stage}: {error}"
        return None if HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES else f"HTTP {status}"

    async def _post(
        self, connection: Connection, target: PushTarget, body: bytes, headers: Mapping[str, str]
    ) -> int:
        try:
            status = await connection.post(target, headers, body)
        except BaseException:
            connection.writer.transport.abort()
            raise
        if self._keeps and connection.is_reusable:
            self._idle.setdefault(target, []).append(connection)
        else:
            await _close(connection)
        return status

    def _kept(self, target: PushTarget) -> Connection | None:
        idle = self._idle.get(target, [])
        while idle:
            connection = idle.pop()
            if connection.is_reusable:
                return connection
            connection.writer.transport.abort()
        return None

    @asynccontextmanager
    async def kept_alive(self) -> AsyncIterator[None]:
        """Keep connections open until the end of the block."""
        self._keeps = True
        try:
            yield
        finally:
            self._keeps = False
            kept = [connection for idle in self._idle.values() for connection in idle]
            self._idle.clear()
            for connection in kept:
                await _close(connection)


async def _close(connection: Connection) -> None:
    connection.writer.close()
    try:
        await connection.writer.wait_closed()
    except OSError:  # the receiver was first
        return


_GIVES_UP_AFTER_S: Final = 0.05
_CONNECT_TIMEOUT_S: Final = 10.0
_RESET: Final = struct.pack("ii", 1, 0)
"""SO_LINGER with zero seconds: closing sends a reset."""


class Cut(StrEnum):
    """How a delivery breaks, by the name of its fault."""

    TRUNCATE = "push_truncate"  # in the middle of the body
    RESET = "push_reset"  # after the whole request was sent
    TIMEOUT = "push_timeout"  # the same, but the sender waits a moment, then closes in order


_ERRORS: Final = {
    Cut.TRUNCATE: "WriteError: connection closed in the middle of the body",
    Cut.RESET: "ReadError: connection reset by peer",
    Cut.TIMEOUT: "ReadTimeout: no response in time",
}


async def send_and_cut(url: str, body: bytes, headers: Mapping[str, str], cut: Cut) -> str:
    """Post a body over a connection that breaks; return the error text."""
    target = target_of(url)
    try:
        async with asyncio.timeout(_CONNECT_TIMEOUT_S):
            connection = await connect(target)
    except (OSError, TimeoutError) as error:
        return f"ConnectError: {error}"
    sent = body[: len(body) // 2] if cut is Cut.TRUNCATE else body
    try:
        await _send(connection.writer, request_head(target, headers, len(body)) + sent)
        if cut is Cut.TIMEOUT:
            await asyncio.sleep(_GIVES_UP_AFTER_S)
    except OSError as error:
        return f"WriteError: {error}"
    finally:
        _hang_up(connection.writer, cut)
    return _ERRORS[cut]


async def _send(writer: asyncio.StreamWriter, request: bytes) -> None:
    """Send bytes; return when the system has taken all of them."""
    writer.transport.set_write_buffer_limits(0)
    writer.write(request)
    await writer.drain()


def _hang_up(writer: asyncio.StreamWriter, cut: Cut) -> None:
    """End the connection without waiting for anything."""
    under = writer.get_extra_info("socket")
    if cut is Cut.RESET and under is not None:
        under.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    writer.transport.abort()
