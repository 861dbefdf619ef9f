"""HTTP/1.1 with limits that uvicorn 0.54 lacks: a time and a size for headers, and connections.

Without them, a client could hold a connection by sending one byte of a header a minute, or fill the
memory with a header that never ends, or hold connections for ever by not reading the answers.
When all connections are taken, the one that has waited longest for a request is closed, so that
silent connections shut out no client that asks something.
Headers after a chunked body are dropped: uvicorn would add them to those before it, so that a
signature or a proxy's address could come from them.
"""

from asyncio import TimerHandle
from collections import deque
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

HEADER_SECONDS = 10.0
"""Time from the first byte of a request, or from the connection, to the end of its headers."""

HEADER_BYTES = 64 * 2**10
"""Maximum of unfinished headers, before a body or after it.

The application's own limit for finished ones is smaller.
"""

ANSWER_SECONDS = 15.0
"""Time for a client to take the next part of an answer."""

ANSWER_PART_BYTES = 64 * 2**10
"""What a client must take of a larger answer in that time."""

MAX_CONNECTIONS = 512

_UNSENT_BYTES = 1
"""More unsent bytes than this count as an answer that is not taken."""


class BoundedProtocol(HttpToolsProtocol):
    """A connection with limits."""

    header_seconds = HEADER_SECONDS
    answer_seconds = ANSWER_SECONDS
    max_connections = MAX_CONNECTIONS

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._header_timer: TimerHandle | None = None
        self._answer_timer: TimerHandle | None = None
        self._header_bytes = 0  # since the last part of a body, or the last end of headers
        self._is_after_headers = False
        self._cycles: deque[RequestResponseCycle] = deque()  # not answered yet, in their order
        self._asked_at = self.loop.time()  # the last complete headers, or the connection

    def connection_made(self, transport: Any) -> None:
        """Start waiting for headers; of too many connections, close one that is silent."""
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=_UNSENT_BYTES, low=0)
        rivals, maximum = self.rivals()
        if len(rivals) <= maximum:
            self._await_headers()
        elif silent := [one for one in rivals if one is not self and one.is_silent()]:
            min(silent, key=lambda one: one._asked_at)._give_way()  # noqa: SLF001 - of this class
            self._await_headers()
        else:
            self._answer(HTTPStatus.SERVICE_UNAVAILABLE)

    def rivals(self) -> tuple[list["BoundedProtocol"], int]:
        """Return the connections that share a maximum with this one, itself included, and it."""
        return [o for o in self.connections if isinstance(o, BoundedProtocol)], self.max_connections

    def is_silent(self) -> bool:
        """Return whether no request of this connection is complete and unanswered."""
        is_idle = all(cycle.response_complete for cycle in self._cycles)
        return is_idle and not self.transport.is_closing()

    def _give_way(self) -> None:
        self._stop_waiting()
        self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._stop_waiting()
        self._stop_waiting_for_client()
        for cycle in self._cycles:  # uvicorn tells only the last one, and others would still write
            cycle.disconnected = True
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Give the client some time to take its answer."""
        super().pause_writing()
        self._await_client()

    def _await_client(self) -> None:
        self._stop_waiting_for_client()
        unsent = self.transport.get_write_buffer_size()
        self._answer_timer = self.loop.call_later(self.answer_seconds, self._check_client, unsent)

    def _check_client(self, unsent_before: int) -> None:
        """Close the connection unless the client has taken a part of its answer meanwhile."""
        if unsent_before - self.transport.get_write_buffer_size() >= ANSWER_PART_BYTES:
            self._await_client()
        else:
            self.transport.abort()

    def resume_writing(self) -> None:
        """Go on: the client has taken its answer."""
        self._stop_waiting_for_client()
        super().resume_writing()

    def _stop_waiting_for_client(self) -> None:
        if self._answer_timer is not None:
            self._answer_timer.cancel()
            self._answer_timer = None

    def data_received(self, data: bytes) -> None:
        """Parse what arrived; close the connection if its headers are too large."""
        if self.transport.is_closing():
            return
        is_idle = self.cycle is None or self.cycle.response_complete
        if is_idle and self._header_timer is None:
            self._await_headers()
        self._header_bytes += len(data)
        super().data_received(data)
        if self._header_bytes > HEADER_BYTES and not self.transport.is_closing():
            self._answer(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)

    def on_message_begin(self) -> None:
        """Begin a request."""
        self._is_after_headers = False
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header, unless it comes after the body."""
        if not self._is_after_headers:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Stop waiting for headers."""
        self._stop_waiting()
        self._is_after_headers, self._header_bytes = True, 0
        self._asked_at = self.loop.time()
        super().on_headers_complete()
        while self._cycles and self._cycles[0].response_complete:
            self._cycles.popleft()
        self._cycles.append(self.cycle)

    def on_body(self, body: bytes) -> None:
        """Take a part of the body."""
        self._header_bytes = 0
        super().on_body(body)

    def _await_headers(self) -> None:
        self._header_bytes = 0
        self._header_timer = self.loop.call_later(self.header_seconds, self._time_out)

    def _stop_waiting(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None

    def _time_out(self) -> None:
        if self._header_bytes:
            self._answer(HTTPStatus.REQUEST_TIMEOUT)
        else:  # nothing was asked
            self.transport.close()

    def _answer(self, status: HTTPStatus) -> None:
        """Answer before a request is complete, and close the connection."""
        self._stop_waiting()
        self.transport.write(
            f"HTTP/1.1 {status.value} {status.phrase}\r\nconnection: close\r\n"
            "content-length: 0\r\n\r\n".encode()
        )
        self.transport.close()
