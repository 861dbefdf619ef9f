"""Serves the application over HTTP on the loopback address until it is stopped."""

import gc

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from fleetlake.serving.host_names import OwnNamesOnly
from fleetlake.serving.web_server import WebServer, listen, url_of
from fleetsim.app import create_app
from fleetsim.faults import ABORT
from fleetsim.options import SimulatorOptions

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


def serve(options: SimulatorOptions) -> None:
    """Serve in the foreground; print `ready <url>` once connections are accepted.

    SIGTERM and SIGINT stop it: open responses are finished, and the call returns.

    Raises: UsageError if the port is in use, or this user may not open it.
    """
    app = create_app(options)
    _make_collection_rare()
    listener = listen(HOST, options.port)
    url = url_of(HOST, listener)
    config = uvicorn.Config(
        OwnNamesOnly(app),
        loop="uvloop",
        http=DroppableProtocol,
        lifespan="on",
        access_log=False,
        date_header=False,  # the application sends the simulated clock's
        server_header=False,
        log_level="warning",
        timeout_graceful_shutdown=3,
    )
    server = WebServer(
        config,
        ready=lambda: print(f"ready {url}", flush=True),  # noqa: T201 - parent processes wait for it
        stopping=app.state.simulation.pusher.stop,
    )
    server.serve_until_stopped(listener)


def _make_collection_rare() -> None:
    """Make garbage collection rare: a page has thousands of small objects but no cycles."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(200_000, 20, 100)
