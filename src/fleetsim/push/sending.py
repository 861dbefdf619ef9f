"""Sends signed POSTs to a destination (service contract, Signing of pushed messages)."""

import asyncio
import hashlib
import hmac
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Final

from fleetsim.push.connections import Connection, PushTarget, connect, target_of

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


async def send_over_http(url: str, body: bytes, headers: Mapping[str, str]) -> str | None:
    """Post once, over a connection of its own."""
    return await HttpSender()(url, body, headers)
