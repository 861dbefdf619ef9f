"""Serves the receiver over HTTP or HTTPS until it is stopped."""

import contextlib
import logging
import ssl
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Any

import uvicorn
import uvloop
from starlette.types import ASGIApp

from fleetlake.errors import UsageError
from fleetlake.machine.loopback import is_loopback_host
from fleetlake.receiving.child_process import DRAINER, METRICS
from fleetlake.receiving.intake import is_within, open_intake
from fleetlake.receiving.push_app import create_app
from fleetlake.serving.bounded_protocol import BoundedProtocol
from fleetlake.serving.web_server import WebServer, listen, url_of
from fleetlake.settings import Settings


class Certificate:
    """A certificate with its key, in PEM files, and the context of connections that use it."""

    def __init__(self, cert: Path, key: Path | None) -> None:
        """Read the files; without `key`, the key is in `cert`. Raises: UsageError."""
        self._cert = cert
        self._key = key or cert
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2  # the service speaks 1.2 and 1.3
        self._version = self._times()
        try:
            self._load()
        except OSError as error:  # ssl.SSLError too
            raise UsageError(
                f"The certificate {cert} with the key {self._key} cannot be used: "
                f"{error.strerror or error}.",
                remedy="Name PEM files that belong together; the key must not be encrypted.",
            ) from None

    def _load(self) -> None:
        # A context that was given files which do not belong together can use neither them nor its
        # old ones. So another one tries them: between two files of a renewal they do not fit.
        for context in (ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), self.context):
            # Without a password, OpenSSL would ask for one on the terminal.
            context.load_cert_chain(self._cert, self._key, password="")

    def reload_if_changed(self) -> None:
        """Use the files again if they changed; keep the old certificate if they do not fit."""
        version = self._times()
        if version == self._version:
            return
        try:
            self._load()
        except OSError as error:
            logging.getLogger(__name__).warning(
                "The new certificate cannot be used; the old one stays: %s.",
                error.strerror or error,
            )
        else:
            self._version = version

    def _times(self) -> tuple[float, ...]:
        try:
            return tuple(file.stat().st_mtime for file in (self._cert, self._key))
        except OSError:
            return ()


MAX_STRANGERS = 64
"""Maximum of the connections that do not come from an allowed network."""


class PushProtocol(BoundedProtocol):
    """A connection to the receiver.

    `sources` are the allowed networks, as far as the address of a connection tells: none of them
    are given if all networks are allowed, or if all connections come from a proxy.
    """

    max_strangers = MAX_STRANGERS
    sources: Sequence[IPv4Network | IPv6Network] = ()

    @cached_property
    def is_stranger(self) -> bool:
        """Return whether the connection does not come from an allowed network."""
        is_allowed = self.client is not None and is_within(self.client[0], self.sources)
        return bool(self.sources) and not is_allowed

    def rivals(self) -> tuple[list[BoundedProtocol], int]:
        """Return the connections that share a maximum: strangers do not take those of others."""
        everyone, maximum = super().rivals()
        if not self.is_stranger:
            return everyone, maximum
        strangers = [one for one in everyone if getattr(one, "is_stranger", False)]
        return strangers, self.max_strangers


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


class PushServer(WebServer):
    """A server that looks for a renewed certificate."""

    def __init__(
        self, config: uvicorn.Config, ready: Callable[[], None], certificate: Certificate | None
    ) -> None:
        super().__init__(config, ready=ready)
        self._certificate = certificate

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
    listener = listen(options.host, options.port, options="--listen and --port")
    with contextlib.closing(listener):
        intake = open_intake(settings)
        app = create_app(
            lambda: intake,
            drainer=options.drainer,
            metrics=options.metrics,
            names=settings.receiver_names,
        )
        url = url_of(options.host, listener, is_tls=bool(certificate))
        server = PushServer(
            server_config(app, options, certificate, sources=settings.push_sources),
            lambda: _say_ready(url),
            certificate,
        )
        server.serve_until_stopped(listener)


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

    Uvicorn would believe every sender for `*`, and none for a name or a misspelt address.
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
    if is_encrypted or settings.plain_http or is_loopback_host(options.host):
        return
    raise UsageError(
        f"On {options.host}, everyone on the network could read the alerts.",
        remedy="Give a certificate with --cert and --key, or put a proxy with TLS in front and "
        "name its address with --forwarded-allow-ips. If you trust the network, set "
        "FLEETLAKE_PLAIN_HTTP=true.",
    )


def _say_ready(url: str) -> None:
    """Print the address: a process that started this one waits for it."""
    sys.stdout.write(f"ready {url}\n")
    sys.stdout.flush()
