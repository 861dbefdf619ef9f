"""Deliveries that break: the connection ends before the response is read.

The receiver may or may not have stored such a message; the sender counts it as failed.
"""

import asyncio
import socket
import ssl
import struct
from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import httpx

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
    target = httpx.URL(url)
    context = ssl._create_unverified_context() if target.scheme == "https" else None  # noqa: S323, SLF001
    try:
        async with asyncio.timeout(_CONNECT_TIMEOUT_S):
            _, writer = await asyncio.open_connection(
                target.host, target.port or (443 if context else 80), ssl=context
            )
    except (OSError, TimeoutError) as error:
        return f"ConnectError: {error}"
    try:
        await _send(writer, target, body, headers, cut)
    except OSError as error:
        return f"WriteError: {error}"
    finally:
        _close(writer, cut)
    return _ERRORS[cut]


async def _send(
    writer: asyncio.StreamWriter,
    target: httpx.URL,
    body: bytes,
    headers: Mapping[str, str],
    cut: Cut,
) -> None:
    """Send the request, or half of its body; return when the system has taken all of it."""
    path = target.raw_path.decode("ascii")
    lines = [f"POST {path} HTTP/1.1", f"Host: {target.netloc.decode('ascii')}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    lines += [f"Content-Length: {len(body)}", "", ""]
    sent = body[: len(body) // 2] if cut is Cut.TRUNCATE else body
    writer.transport.set_write_buffer_limits(0)
    writer.write("\r\n".join(lines).encode() + sent)
    await writer.drain()
    if cut is Cut.TIMEOUT:
        await asyncio.sleep(_GIVES_UP_AFTER_S)


def _close(writer: asyncio.StreamWriter, cut: Cut) -> None:
    """End the connection without waiting for anything."""
    under = writer.get_extra_info("socket")
    if cut is Cut.RESET and under is not None:
        under.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    writer.transport.abort()
