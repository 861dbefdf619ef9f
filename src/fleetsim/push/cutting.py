"""Deliveries that break: the connection ends before the response is read.

The receiver may or may not have stored such a message; the sender counts it as failed.
"""

import asyncio
import socket
import struct
from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from fleetsim.push.connections import connect, request_head, target_of

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
        _close(connection.writer, cut)
    return _ERRORS[cut]


async def _send(writer: asyncio.StreamWriter, request: bytes) -> None:
    """Send bytes; return when the system has taken all of them."""
    writer.transport.set_write_buffer_limits(0)
    writer.write(request)
    await writer.drain()


def _close(writer: asyncio.StreamWriter, cut: Cut) -> None:
    """End the connection without waiting for anything."""
    under = writer.get_extra_info("socket")
    if cut is Cut.RESET and under is not None:
        under.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    writer.transport.abort()
