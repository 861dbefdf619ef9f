"""Reading the body of a request: bounded in size, in time, and in memory over all requests."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from starlette.requests import ClientDisconnect, Request

from fleetlake.receiving.push_refusals import PushRefusal, Refused

SECONDS = 15.0
SECONDS_PER_MEGABYTE = 5.0
"""Time for a body: enough for a slow line, too short to hold connections open on purpose."""

HELD_BYTES = 64 * 2**20
"""Bytes of bodies in memory at the same time; FLEETLAKE_PUSH_MEGABYTES allows none larger."""

DISCARDED_BYTES = 8 * 2**20
DISCARD_SECONDS = 2.0
"""What is read of a refused body, so that its sender gets the answer and no reset connection."""


class BodyReader:
    """Reads bodies of at most `most_bytes`, for all requests of a receiver.

    `held` is how many bytes of bodies are in memory.
    """

    def __init__(
        self, most_bytes: int, *, held_bytes: int = HELD_BYTES, seconds: float | None = None
    ) -> None:
        self._most_bytes = most_bytes
        self._held_limit = held_bytes
        self.held = 0
        megabytes = most_bytes / 2**20
        self._seconds = SECONDS + SECONDS_PER_MEGABYTE * megabytes if seconds is None else seconds

    @contextmanager
    def holding(self) -> Iterator["HeldBody"]:
        """Count a body as held in memory until the end of the block."""
        body = HeldBody(self)
        try:
            yield body
        finally:
            self.held -= body.size

    def hold(self, size: int) -> None:
        """Count bytes as held. Raises: Refused if there are too many."""
        if self.held + size > self._held_limit:
            raise Refused(PushRefusal.OVERLOADED, "too many messages at once")
        self.held += size

    async def read(self, request: Request, body: "HeldBody") -> bytes:
        """Return the whole body of a request. Raises: Refused."""
        if _announced(request) > self._most_bytes:
            raise Refused(PushRefusal.TOO_LARGE, f"more than {self._most_bytes} bytes")
        try:
            async with asyncio.timeout(self._seconds):
                return await self._joined(request, body)
        except TimeoutError:
            raise Refused(PushRefusal.TOO_SLOW, "the body took too long") from None
        except ClientDisconnect:
            raise Refused(PushRefusal.INCOMPLETE, "the body is incomplete") from None

    async def _joined(self, request: Request, body: "HeldBody") -> bytes:
        chunks = []
        async for chunk in request.stream():
            if body.size + len(chunk) > self._most_bytes:
                raise Refused(PushRefusal.TOO_LARGE, f"more than {self._most_bytes} bytes")
            body.add(len(chunk))
            chunks.append(chunk)
        return b"".join(chunks)


class HeldBody:
    """The part of one body that is in memory."""

    def __init__(self, reader: BodyReader) -> None:
        self._reader = reader
        self.size = 0

    def add(self, size: int) -> None:
        """Count more bytes. Raises: Refused if all requests together hold too many."""
        self._reader.hold(size)
        self.size += size


def _announced(request: Request) -> int:
    """Return the announced length of a body, 0 if none is announced."""
    length = request.headers.get("content-length", "")
    return int(length) if length.isascii() and length.isdecimal() else 0


async def discard(request: Request) -> bool:
    """Read and drop the rest of a refused body, up to a limit; return whether all of it was read.

    A sender that waits for `100 Continue` has not begun to send.
    """
    if "expect" in request.headers:
        return False
    dropped = 0
    try:
        async with asyncio.timeout(DISCARD_SECONDS):
            async for chunk in request.stream():
                dropped += len(chunk)
                if dropped > DISCARDED_BYTES:
                    return False
    except RuntimeError:  # Starlette's answer if the whole body was read before
        return True
    except (TimeoutError, ClientDisconnect):
        return False
    return True
