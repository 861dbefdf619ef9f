"""Listening on an address, saying when a server is ready, and stopping at a signal."""

import contextlib
import os
import signal
import socket
from collections.abc import Callable
from types import FrameType

import uvicorn
from starlette.types import ASGIApp

from fleetlake.errors import UsageError

BACKLOG = 512


class WebServer(uvicorn.Server):
    """A server that calls `ready` when it accepts connections, and `stopping` when it stops."""

    def __init__(
        self,
        config: uvicorn.Config,
        *,
        ready: Callable[[], None],
        stopping: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(config)
        self._ready = ready
        self._stopping = stopping

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Start shutting down."""
        self._stopping()
        super().handle_exit(sig, frame)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, then announce."""
        await super().startup(sockets)
        self._ready()

    def serve_until_stopped(self, listener: socket.socket) -> None:
        """Serve in the foreground until SIGTERM or SIGINT, then close the listener."""
        # The server takes the signals while it runs. One that comes just before ends it as well,
        # and the one that it raises again when it is done changes nothing any more.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self.handle_exit)
        with contextlib.closing(listener):
            self.run(sockets=[listener])


def serve(
    app: ASGIApp,
    address: str,
    port: int,
    *,
    ready: Callable[[str], None],
    stopping: Callable[[], None] = lambda: None,
) -> None:
    """Serve in the foreground until SIGTERM or SIGINT; call `ready` with the URL.

    Raises: UsageError if the port cannot be used.
    """
    from fleetlake.serving.bounded_protocol import BoundedProtocol  # noqa: PLC0415 - it is heavy

    listener = listen(address, port, options="--listen and --port")
    url = url_of(address, listener)
    config = uvicorn.Config(
        app,
        http=BoundedProtocol,
        ws="none",
        lifespan="on",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        log_level="warning",
        timeout_graceful_shutdown=3,
    )
    server = WebServer(config, ready=lambda: ready(url), stopping=stopping)
    server.serve_until_stopped(listener)


def listen(host: str, port: int, *, options: str = "--port") -> socket.socket:
    """Return a socket that listens on an address and port. Raises: UsageError.

    `options` are the options of the command that choose another one.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except (OSError, UnicodeError) as error:
        raise UsageError(
            f"Cannot listen on {host}, port {port}: {_why_not(error)}.",
            remedy=f"Choose another port with {options}, or stop the process that uses it.",
        ) from None


def _why_not(error: OSError | UnicodeError) -> str:
    # Python adds to the text of an error, and the numbers of looking up a name are negative.
    if isinstance(error, UnicodeError) or (error.errno or 0) < 0:
        return "There is no such address"
    return os.strerror(error.errno or 0)


def url_of(host: str, listener: socket.socket, *, is_tls: bool = False) -> str:
    """Return the address that clients on this machine use."""
    shown = f"[{host}]" if ":" in host else host
    return f"{'https' if is_tls else 'http'}://{shown}:{listener.getsockname()[1]}"
