"""The HTTP transport of the client: HTTP/1.1 over persistent connections, with little overhead.

The client uses httpx, and h11 implements the protocol. httpx's own transport takes half of a load's
CPU time for features that lists of records do not need. This one reads whole responses, one at a
time per connection, and never through a proxy. A body over its limit is read to one byte beyond the
limit, so that the caller can see that it is too large.
"""

import asyncio
import ssl
import time
from functools import partial
from typing import cast

import h11
import httpx

from fleetlake.service.bodies import DEFAULT_BOUNDS, Bounds

KEPT_SECONDS = 5.0
"""How long an idle connection is kept for reuse; many services close it soon after."""

_LARGEST_HEAD = 100 * 1024
_PORTS = {"http": 80, "https": 443}

Origin = tuple[str, str, int]


class Wire(httpx.AsyncBaseTransport):
    """Connections to the requested hosts, one per concurrent request.

    Raises what httpx's own transport raises: TransportError for an incomplete response.
    """

    def __init__(
        self, *, bounds: Bounds = DEFAULT_BOUNDS, tls: ssl.SSLContext | None = None
    ) -> None:
        self._bounds = bounds
        self._tls = tls
        self._idle: dict[Origin, list[_Connection]] = {}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Return the whole response to a request."""
        url = request.url
        origin = (url.scheme, url.host, url.port or _PORTS[url.scheme])
        seconds = request.extensions.get("timeout", {})
        connection = self._kept(origin) or await self._connect(origin, seconds.get("connect"))
        try:
            answer = await connection.exchange(request, seconds.get("read"))
        except BaseException:
            # Nobody waits for the rest of the response.
            connection.close()
            raise
        if connection.is_free:
            self._idle.setdefault(origin, []).append(connection)
        else:
            connection.close()
        return answer

    async def aclose(self) -> None:
        """Close all connections."""
        for connections in self._idle.values():
            for connection in connections:
                connection.close()
        self._idle.clear()

    def _kept(self, origin: Origin) -> "_Connection | None":
        idle = self._idle.get(origin, [])
        while idle:
            connection = idle.pop()
            if connection.is_free and time.monotonic() - connection.used_at <= KEPT_SECONDS:
                return connection
            connection.close()
        return None

    async def _connect(self, origin: Origin, seconds: float | None) -> "_Connection":
        scheme, host, port = origin
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(seconds):
                _, connection = await loop.create_connection(
                    partial(_Connection, self._bounds),
                    host,
                    port,
                    ssl=self._tls if scheme == "https" else None,
                )
        except TimeoutError:
            raise httpx.ConnectTimeout(f"no connection within {seconds:g} s") from None
        except OSError as error:
            raise httpx.ConnectError(str(error) or type(error).__name__) from error
        return connection


class _Connection(asyncio.Protocol):
    """One connection: it sends a request and reads the whole response before the next request."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=_LARGEST_HEAD)
        self._answer: asyncio.Future[httpx.Response] | None = None
        self._head: h11.Response | None = None
        self._body = bytearray()  # a list would take fifty bytes for each chunk of one or two
        self.used_at = time.monotonic()

    @property
    def is_free(self) -> bool:
        """True if another request may be sent."""
        unasked, _ = self._http.trailing_data
        is_ready = self._http.our_state is h11.IDLE and not unasked
        return is_ready and not self._transport.is_closing()

    def close(self) -> None:
        """Close at once and drop data in transit."""
        self._transport.abort()

    async def exchange(self, request: httpx.Request, seconds: float | None) -> httpx.Response:
        """Send a request and return its response; up to `seconds` may pass without a byte of it."""
        loop = asyncio.get_running_loop()
        self._head, self._body = None, bytearray()
        self._answer = loop.create_future()
        self._transport.write(await self._encoded(request))
        try:
            async with asyncio.timeout(seconds) as self._deadline:
                self._seconds = seconds
                return await self._answer
        except TimeoutError:
            raise httpx.ReadTimeout(f"no data for {seconds:g} s") from None
        finally:
            self._answer = None
            self.used_at = time.monotonic()

    async def _encoded(self, request: httpx.Request) -> bytes:
        """Return a request as bytes for the wire."""
        method, target = request.method.encode(), request.url.raw_path
        body = await request.aread()
        try:
            asked = h11.Request(method=method, target=target, headers=request.headers.raw)
            events = [asked, *([h11.Data(data=body)] if body else []), h11.EndOfMessage()]
            return b"".join(self._http.send(event) or b"" for event in events)
        except h11.LocalProtocolError as error:
            raise httpx.LocalProtocolError(str(error)) from None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport for writing; not every event loop uses asyncio's own class."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Read data; data that arrives without a request is an error."""
        if self._answer is None:
            self.close()
            return
        if self._seconds is not None:
            self._deadline.reschedule(asyncio.get_running_loop().time() + self._seconds)
        self._take(data)

    def eof_received(self) -> None:
        """Handle the end of the connection, which may also be the end of a response."""
        if self._head is None:
            self._fail(httpx.RemoteProtocolError("the connection ended before a response arrived"))
        self._take(b"")

    def connection_lost(self, error: Exception | None) -> None:
        """Fail the response that can no longer arrive."""
        self._fail(httpx.ReadError(str(error) if error else "the connection was closed"))

    def _take(self, data: bytes) -> None:
        try:
            self._http.receive_data(data)
            while self._read_event():
                pass
        except h11.RemoteProtocolError as error:
            self._fail(httpx.RemoteProtocolError(str(error)))

    def _read_event(self) -> bool:
        """Process one event of the connection; return whether there may be more."""
        event = self._http.next_event()
        if isinstance(event, h11.Response):
            self._head = event
        elif isinstance(event, h11.Data):
            self._body += event.data
            if self._is_too_large():
                self._end()  # in the middle of a body, so the connection is not reused
                return False
        elif isinstance(event, h11.EndOfMessage):
            self._end()
            return False
        elif event in (h11.NEED_DATA, h11.PAUSED) or isinstance(event, h11.ConnectionClosed):
            return False
        return True

    def _end(self) -> None:
        """Deliver the response, and prepare for the next request if the service allows one."""
        assert self._head is not None
        if self._answer is not None and not self._answer.done():
            answer = httpx.Response(
                self._head.status_code,
                headers=self._head.headers.raw_items(),
                stream=httpx.ByteStream(bytes(self._body)),
                extensions={"http_version": b"HTTP/1.1"},
            )
            self._answer.set_result(answer)
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()

    def _is_too_large(self) -> bool:
        assert self._head is not None
        return len(self._body) > self._bounds.of(self._head.status_code)

    def _fail(self, error: httpx.TransportError) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)
