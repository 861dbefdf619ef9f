"""Serves the receiver over HTTP or HTTPS until it is stopped."""

import contextlib
import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import Any

import uvicorn
import uvloop
from starlette.types import ASGIApp

from fleetlake.errors import UsageError
from fleetlake.receiving.certificate import Certificate
from fleetlake.receiving.child_process import DRAINER, METRICS
from fleetlake.receiving.intake import open_intake
from fleetlake.receiving.push_app import create_app
from fleetlake.receiving.push_protocol import PushProtocol
from fleetlake.settings import Settings

BACKLOG = 512
KEEP_ALIVE_SECONDS = 30
STOP_SECONDS = 10
HANDSHAKE_SECONDS = 10.0
CERTIFICATE_TICKS = 600
"""Uvicorn's ticks, ten a second, between two looks at the certificate."""


@dataclass(frozen=True, kw_only=True)
class ServerOptions:
    """Where to listen, and how. `drainer` and `metrics` are commands of child processes."""

    host: str = "127.0.0.1"
    port: int = 0
    cert: Path | None = None
    key: Path | None = None
    forwarded_allow_ips: str = ""
    drainer: Sequence[str] | None = DRAINER
    metrics: Sequence[str] = METRICS


class _Loop(uvloop.Loop):
    """An event loop whose servers do not wait a minute for a TLS handshake."""

    async def create_server(self, *arguments: Any, **options: Any) -> Any:
        """Return a server, as asyncio does."""
        if options.get("ssl"):
            options["ssl_handshake_timeout"] = HANDSHAKE_SECONDS
        return await super().create_server(*arguments, **options)


class _Server(uvicorn.Server):
    """Announces when it accepts connections, and looks for a renewed certificate."""

    def __init__(
        self, config: uvicorn.Config, ready: Callable[[], None], certificate: Certificate | None
    ) -> None:
        super().__init__(config)
        self._ready = ready
        self._certificate = certificate

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, then announce."""
        await super().startup(sockets)
        self._ready()

    async def on_tick(self, counter: int) -> bool:
        """Do what is due, and return whether to stop."""
        if self._certificate and counter % CERTIFICATE_TICKS == 0:
            self._certificate.reload_if_changed()
        return await super().on_tick(counter)


def serve(settings: Settings, options: ServerOptions) -> None:
    """Serve in the foreground; print `ready <url>` once connections are accepted.

    SIGTERM and SIGINT stop it: messages that have arrived are stored and answered first.

    Raises: UsageError for a bad address or certificate, SettingsError, LakeError.
    """
    certificate = Certificate(options.cert, options.key) if options.cert else None
    require_addresses(options.forwarded_allow_ips)
    require_private_line(settings, options)
    listener = listen(options.host, options.port)
    with contextlib.closing(listener):
        intake = open_intake(settings)
        app = create_app(lambda: intake, drainer=options.drainer, metrics=options.metrics)
        url = address_in_words(options.host, listener.getsockname()[1], is_tls=bool(certificate))
        server = _Server(
            server_config(app, options, certificate, sources=settings.push_sources),
            lambda: _say_ready(url),
            certificate,
        )
        # The server takes the signals while it runs. One that comes just before ends it as well,
        # and the one that it raises again when it is done changes nothing any more.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, server.handle_exit)
        server.run(sockets=[listener])


def server_config(
    app: ASGIApp,
    options: ServerOptions,
    certificate: Certificate | None,
    *,
    sources: Sequence[IPv4Network | IPv6Network] = (),
) -> uvicorn.Config:
    """Return uvicorn's configuration. It trusts forwarded addresses only if told whose."""

    class SourcedProtocol(PushProtocol):
        """A connection whose address tells where it comes from, unless that is a proxy's."""

    SourcedProtocol.sources = () if options.forwarded_allow_ips else sources
    return uvicorn.Config(
        app,
        loop=f"{__name__}:_Loop",
        http=SourcedProtocol,
        ws="none",
        lifespan="on",
        log_config=None,
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=bool(options.forwarded_allow_ips),
        forwarded_allow_ips=options.forwarded_allow_ips,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=STOP_SECONDS,
        ssl_context_factory=(lambda *_: certificate.context) if certificate else None,
    )


def require_addresses(proxies: str) -> None:
    """Refuse proxies that are not addresses or networks. Raises: UsageError.

    Uvicorn would believe every sender for `*`, and nobody for a name or a misspelt address.
    """
    for proxy in filter(None, (part.strip() for part in proxies.split(","))):
        try:
            ip_network(proxy)
        except ValueError:
            raise UsageError(
                f"--forwarded-allow-ips: {proxy!r} is not an address or a network.",
                remedy="Name the proxies in front by address, e.g. 127.0.0.1 or 10.20.0.0/24. "
                "A named proxy can claim any address as the sender's.",
            ) from None


def require_private_line(settings: Settings, options: ServerOptions) -> None:
    """Refuse to receive alerts readably from other machines. Raises: UsageError."""
    is_encrypted = options.cert or options.forwarded_allow_ips
    if is_encrypted or settings.plain_http or _is_loopback(options.host):
        return
    raise UsageError(
        f"On {options.host}, everyone on the network could read the alerts.",
        remedy="Give a certificate with --cert and --key, or put a proxy with TLS in front and "
        "name its address with --forwarded-allow-ips. If you trust the network, set "
        "FLEETLAKE_PLAIN_HTTP=true.",
    )


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens on an address and port. Raises: UsageError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except (OSError, UnicodeError) as error:
        raise UsageError(
            f"Cannot listen on {host}, port {port}: {_why_not(error)}.",
            remedy="Choose another one with --host and --port, or stop the process that uses it.",
        ) from None


def _why_not(error: OSError | UnicodeError) -> str:
    # Python adds to the text of an error, and the numbers of looking up a name are negative.
    if isinstance(error, UnicodeError) or (error.errno or 0) < 0:
        return "There is no such address"
    return os.strerror(error.errno or 0)


def address_in_words(host: str, port: int, *, is_tls: bool) -> str:
    """Return the address that senders on this machine use.

    >>> address_in_words("::", 8710, is_tls=True)
    'https://[::]:8710'
    """
    return f"{'https' if is_tls else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"


def _say_ready(url: str) -> None:
    """Print the address: a process that started this one waits for it."""
    sys.stdout.write(f"ready {url}\n")
    sys.stdout.flush()
