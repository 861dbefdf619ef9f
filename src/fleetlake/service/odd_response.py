"""Responses and requests that are not plain: h11 reads and writes them.

It is imported only for those, because h11 takes 0.02 s of CPU time to import.
"""

import h11
import httpx

from fleetlake.service.bodies import Bounds
from fleetlake.service.plain_head import Fields

_LARGEST_HEAD = 100 * 1024


def encoded_request(request: httpx.Request) -> bytes:
    """Return a request as bytes for the wire. Raises: httpx.LocalProtocolError."""
    return _sent(request)[1]


class OddResponse:
    """The response to a request, from its first byte on."""

    def __init__(self, request: httpx.Request, bounds: Bounds) -> None:
        self._connection, _ = _sent(request)
        self._bounds = bounds
        self._head: h11.Response | None = None
        self.body = bytearray()
        self.is_last = True
        """False if the connection may serve another request."""

    @property
    def has_begun(self) -> bool:
        """True once the head was read."""
        return self._head is not None

    @property
    def status(self) -> int:
        """The status code; the head was read."""
        assert self._head is not None
        return self._head.status_code

    @property
    def fields(self) -> Fields:
        """The header fields; the head was read."""
        assert self._head is not None
        return self._head.headers.raw_items()

    def take(self, data: bytes) -> bool:
        """Read a part, b"" at the end of the connection; return whether the response is complete.

        A body over its limit is complete one byte beyond it. Raises: httpx.RemoteProtocolError.
        """
        try:
            self._connection.receive_data(data)
            while True:
                event = self._connection.next_event()
                if event in (h11.NEED_DATA, h11.PAUSED) or isinstance(event, h11.ConnectionClosed):
                    return False
                if self._is_complete(event):
                    return True
        except h11.RemoteProtocolError as error:
            raise httpx.RemoteProtocolError(str(error)) from None

    def _is_complete(self, event: object) -> bool:
        """Process one event; return whether it completes the response."""
        connection = self._connection
        if isinstance(event, h11.Response):
            self._head = event
        elif isinstance(event, h11.Data):
            self.body += event.data
            return len(self.body) > self._bounds.of(self.status)
        elif isinstance(event, h11.EndOfMessage):
            states = {connection.our_state, connection.their_state}
            self.is_last = states != {h11.DONE} or bool(connection.trailing_data[0])
            return True
        return False


def _sent(request: httpx.Request) -> tuple[h11.Connection, bytes]:
    """Return a connection after a request, and the request as bytes for the wire."""
    connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=_LARGEST_HEAD)
    method, target, body = request.method.encode(), request.url.raw_path, request.content
    try:
        asked = h11.Request(method=method, target=target, headers=request.headers.raw)
        events = [asked, *([h11.Data(data=body)] if body else []), h11.EndOfMessage()]
        return connection, b"".join(connection.send(event) or b"" for event in events)
    except h11.LocalProtocolError as error:
        raise httpx.LocalProtocolError(str(error)) from None
