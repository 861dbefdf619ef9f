"""Serves the application over HTTP on the loopback address until it is stopped."""

import contextlib
import gc
import os
import signal
import socket
from collections.abc import Callable
from types import FrameType

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from fleetlake.errors import UsageError
from fleetsim.app import create_app
from fleetsim.faults import ABORT
from fleetsim.options import SimulatorOptions
from fleetsim.push import Pusher

HOST = "127.0.0.1"


class DroppableProtocol(HttpToolsProtocol):
    """HTTP/1.1 whose connections a request can drop, for the fault `reset`."""

    def on_headers_complete(self) -> None:
        """Let the application drop the connection; runs before it sees the request."""
        super().on_headers_complete()
        self.scope["extensions"] = {ABORT: {"drop": self._drop}}

    def _drop(self, *, graceful: bool) -> None:
        """Close the connection: after sending what was written, or with a reset."""
        if graceful:
            self.transport.close()
        else:
            self.transport.abort()


class _Server(uvicorn.Server):
    """Announces when it accepts connections, and stops the pusher when it shuts down."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None], pusher: Pusher) -> None:
        super().__init__(config)
        self._ready = ready
        self._pusher = pusher

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Start shutting down; a long clock step stops after the current day."""
        self._pusher.is_stopped = True
        super().handle_exit(sig, frame)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, then announce."""
        await super().startup(sockets)
        self._ready()


def serve(options: SimulatorOptions) -> None:
    """Serve in the foreground; print `ready <url>` once connections are accepted.

    SIGTERM and SIGINT stop it: open responses are finished, and the call returns.

    Raises: UsageError if the port is in use, or this user may not open it.
    """
    app = create_app(options)
    _make_collection_rare()
    listener = listen(options.port)
    url = f"http://{HOST}:{listener.getsockname()[1]}"
    config = uvicorn.Config(
        app,
        loop="uvloop",
        http=DroppableProtocol,
        lifespan="on",
        access_log=False,
        date_header=False,  # the application sends the simulated clock's
        server_header=False,
        log_level="warning",
        timeout_graceful_shutdown=3,
    )
    server = _Server(
        config,
        lambda: print(f"ready {url}", flush=True),  # noqa: T201 - parent processes wait for this line
        app.state.simulation.pusher,
    )
    # The server takes the signals while it runs. One that comes just before ends it as well, and
    # the one that it raises again when it is done changes nothing any more.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, server.handle_exit)
    with contextlib.closing(listener):
        server.run(sockets=[listener])


def listen(port: int) -> socket.socket:
    """Return a socket that listens on a local port. Raises: UsageError."""
    try:
        return socket.create_server((HOST, port), backlog=512)
    except OSError as error:
        raise UsageError(
            f"Cannot listen on port {port}: {os.strerror(error.errno or 0)}.",
            remedy="Choose another port with --port, or stop the process that uses it.",
        ) from None


def _make_collection_rare() -> None:
    """Make garbage collection rare: a page has thousands of small objects but no cycles."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(200_000, 20, 100)
