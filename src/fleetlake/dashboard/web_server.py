"""Serves the dashboard over HTTP until it is stopped."""

import contextlib
import os
import signal
import socket
from collections.abc import Callable
from ipaddress import ip_address
from pathlib import Path
from types import FrameType

import uvicorn
from pydantic import SecretStr

from fleetlake.dashboard.map_tiles import read_map_tiles
from fleetlake.dashboard.web_app import Dashboard, create_dashboard
from fleetlake.errors import SettingsError, UsageError

LOOPBACK = "127.0.0.1"
SHORTEST_TOKEN = 16
MOST_CONNECTIONS = 300


class _DashboardServer(uvicorn.Server):
    """Announces when it accepts connections, and ends the streams of events when it stops."""

    def __init__(
        self, config: uvicorn.Config, ready: Callable[[], None], dashboard: Dashboard
    ) -> None:
        super().__init__(config)
        self._ready = ready
        self._dashboard = dashboard

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Start shutting down."""
        self._dashboard.stop()
        super().handle_exit(sig, frame)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, then announce."""
        await super().startup(sockets)
        self._ready()


def serve_dashboard(
    published: Path,
    *,
    port: int,
    address: str = LOOPBACK,
    token: SecretStr | None = None,
    tiles: Path | None = None,
    ready: Callable[[str], None],
) -> None:
    """Serve in the foreground; call `ready` with the URL once connections are accepted.

    SIGTERM and SIGINT stop it. A token is asked of every reader; an address beyond this machine
    needs one. `tiles` is a PMTiles file for the map.

    Raises: SettingsError without a token for others, UsageError if the port cannot be used,
    TilesUnreadable if the tiles cannot be drawn.
    """
    if not _is_loopback(address) or token is not None:
        _require_token(token)
    if tiles is not None:
        read_map_tiles(tiles)
    app = create_dashboard(published, token=token, tiles=tiles)
    listener = _listen(address, port)
    url = f"http://{f'[{address}]' if ':' in address else address}:{listener.getsockname()[1]}"
    config = uvicorn.Config(
        app,
        lifespan="on",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        log_level="warning",
        limit_concurrency=MOST_CONNECTIONS,
        timeout_graceful_shutdown=3,
    )
    server = _DashboardServer(config, lambda: ready(url), app.state.dashboard)
    # The server takes the signals while it runs. One that comes just before ends it as well, and
    # the one that it raises again when it is done changes nothing any more.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, server.handle_exit)
    with contextlib.closing(listener):
        server.run(sockets=[listener])


def _is_loopback(address: str) -> bool:
    try:
        return ip_address(address).is_loopback
    except ValueError:
        raise UsageError(
            f"{address!r} is no address of this machine.",
            remedy="Name an IP address: --listen 0.0.0.0 for all of them.",
        ) from None


def _require_token(token: SecretStr | None) -> None:
    if token is not None and len(token.get_secret_value()) >= SHORTEST_TOKEN:
        return
    problem = "is not set, so others could read the fleet" if token is None else "is too short"
    raise SettingsError(
        f"FLEETLAKE_DASHBOARD_TOKEN {problem}.",
        remedy=f"Set it to at least {SHORTEST_TOKEN} characters, for example the output of "
        "`openssl rand -hex 24`. A reverse proxy may send it in the header X-Fleetlake-Token.",
    )


def _listen(address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        return socket.create_server((address, port), family=family, backlog=256)
    except OSError as error:
        raise UsageError(
            f"Cannot listen on {address}, port {port}: {os.strerror(error.errno or 0)}.",
            remedy="Choose another port with --port, or stop the process that uses it.",
        ) from None
