"""Serves the dashboard over HTTP until it is stopped."""

from collections.abc import Callable
from ipaddress import ip_address
from pathlib import Path

from pydantic import SecretStr

from fleetlake.dashboard.map_tiles import read_map_tiles
from fleetlake.dashboard.web_app import RecordStep, create_dashboard
from fleetlake.errors import SettingsError, UsageError
from fleetlake.serving.web_server import serve

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
        require_token(token, "dashboard")
    if tiles is not None:
        read_map_tiles(tiles)
    app = create_dashboard(published, token=token, tiles=tiles, record=record)
    serve(app, address, port, ready=ready, stopping=app.state.dashboard.stop)


def _is_loopback(address: str) -> bool:
    try:
        return ip_address(address).is_loopback
    except ValueError:
        raise UsageError(
            f"{address!r} is not an address of this machine.",
            remedy="Name an IP address: --listen 0.0.0.0 for all of them.",
        ) from None


def require_token(token: SecretStr | None, what: str) -> None:
    """Raise SettingsError unless a token is set for what is served, and long enough."""
    if token is not None and len(token.get_secret_value()) >= SHORTEST_TOKEN:
        return
    problem = f"is not set, so others could use the {what}" if token is None else "is too short"
    raise SettingsError(
        f"FLEETLAKE_{what.upper()}_TOKEN {problem}.",
        remedy=f"Set it to at least {SHORTEST_TOKEN} characters, for example the output of "
        "`openssl rand -hex 24`. A reverse proxy may send it in the header X-Fleetlake-Token.",
    )
