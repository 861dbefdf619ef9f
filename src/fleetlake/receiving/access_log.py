"""The access log: who asked for what, and the answer. Never a query, a header or a body."""

import logging
import queue
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from ipaddress import ip_address
from logging.handlers import QueueHandler, QueueListener

from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOGGER = logging.getLogger("fleetlake.receiving.access")

KNOWN_PATHS = frozenset({"/push", "/healthz", "/metrics"})
"""Other paths are not logged: a sender may have put a secret into one."""

KNOWN_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})

WAITING_LINES = 10_000


class AccessLog:
    """ASGI middleware that logs one line per answered request, if the log is on."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and log the status of its answer."""
        if scope["type"] != "http" or not LOGGER.isEnabledFor(logging.INFO):
            await self._app(scope, receive, send)
            return
        began = time.monotonic()

        async def send_and_log(message: Message) -> None:
            await send(message)
            if message["type"] == "http.response.start":
                milliseconds = (time.monotonic() - began) * 1000
                LOGGER.info(
                    "%s %d %.1f ms", request_in_words(scope), message["status"], milliseconds
                )

        await self._app(scope, receive, send_and_log)


def request_in_words(scope: Scope) -> str:
    """Return the sender, the method and the path of a request, as far as they are known words.

    A proxy may pass on what a sender claims to be, which is logged only if it is an address.

    >>> request_in_words({"client": ("192.0.2.7", 5), "method": "POST", "path": "/push"})
    '192.0.2.7 POST /push'
    >>> request_in_words({"client": None, "method": "BREW", "path": "/secret"})
    '- (other method) (other path)'
    >>> request_in_words({"client": ("a secret", 0), "method": "POST", "path": "/push"})
    '(no address) POST /push'
    """
    client = _address(scope["client"][0]) if scope.get("client") else "-"
    method = scope["method"] if scope["method"] in KNOWN_METHODS else "(other method)"
    path = scope["path"] if scope["path"] in KNOWN_PATHS else "(other path)"
    return f"{client} {method} {path}"


def _address(host: str) -> str:
    try:
        return str(ip_address(host.partition("%")[0]))
    except ValueError:
        return "(no address)"


class _NonBlockingHandler(QueueHandler):
    """Puts lines into a queue, and drops them when it is full: requests do not wait for a log."""

    def enqueue(self, record: logging.LogRecord) -> None:
        """Add a line to the queue, or drop it."""
        with suppress(queue.Full):
            self.queue.put_nowait(record)


@contextmanager
def written_access_log(handler: logging.Handler) -> Iterator[None]:
    """Write the access log with a handler until the end of the block, from a separate thread."""
    lines: queue.Queue[logging.LogRecord] = queue.Queue(WAITING_LINES)
    writer = QueueListener(lines, handler)
    putting = _NonBlockingHandler(lines)
    LOGGER.setLevel(logging.INFO)
    LOGGER.propagate = False
    LOGGER.addHandler(putting)
    writer.start()
    try:
        yield
    finally:
        LOGGER.removeHandler(putting)
        LOGGER.propagate = True
        LOGGER.setLevel(logging.NOTSET)
        writer.stop()
