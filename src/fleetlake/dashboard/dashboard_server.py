"""Serves the dashboard over HTTP until it is stopped."""

from collections.abc import Callable
from ipaddress import ip_address
from pathlib import Path

import uvicorn
from pydantic import SecretStr

from fleetlake.dashboard.map_tiles import read_map_tiles
from fleetlake.dashboard.web_app import RecordStep, create_dashboard
from fleetlake.errors import SettingsError, UsageError
from fleetlake.serving.bounded_protocol import BoundedProtocol
from fleetlake.serving.web_server import WebServer, listen, url_of

LOOPBACK = "127.0.0.1"
SHORTEST_TOKEN = 16


def serve_dashboard(
    published: Path,
    *,
    port: int,
    address: str = LOOPBACK,
    token: SecretStr | None = None,
    tiles: Path | None = None,
    record: RecordStep | None = None,
    ready: Callable[[str], None],
) -> None:
    """Serve in the foreground; call `ready` with the URL once connections are accepted.

    SIGTERM and SIGINT stop it. A token is asked of every reader; an address beyond this machine
    needs one, and so does `record`, which records what readers do about findings. `tiles` is a
    PMTiles file for the map.

    Raises: SettingsError without a token for others, UsageError if the port cannot be used,
    TilesUnreadable if the tiles cannot be drawn.
    """
    if not _is_loopback(address) or record is not None or token is not None:
        _require_token(token)
    if tiles is not None:
        read_map_tiles(tiles)
    app = create_dashboard(published, token=token, tiles=tiles, record=record)
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
    server = WebServer(config, ready=lambda: ready(url), stopping=app.state.dashboard.stop)
    server.serve_until_stopped(listener)


def _is_loopback(address: str) -> bool:
    try:
        return ip_address(address).is_loopback
    except ValueError:
        raise UsageError(
            f"{address!r} is not an address of this machine.",
            remedy="Name an IP address: --listen 0.0.0.0 for all of them.",
        ) from None


def _require_token(token: SecretStr | None) -> None:
    if token is not None and len(token.get_secret_value()) >= SHORTEST_TOKEN:
        return
    problem = "is not set, so others could use the dashboard" if token is None else "is too short"
    raise SettingsError(
        f"FLEETLAKE_DASHBOARD_TOKEN {problem}.",
        remedy=f"Set it to at least {SHORTEST_TOKEN} characters, for example the output of "
        "`openssl rand -hex 24`. A reverse proxy may send it in the header X-Fleetlake-Token.",
    )
