"""TLS and proxies: how the client reaches a host."""

import os
import ssl
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import getproxies

import httpx

from fleetlake.errors import SettingsError

_PROXY_SCHEMES = {"http", "https", "socks5", "socks5h"}


def tls_context(roots: Iterable[str | None], *, has_proxy: bool) -> ssl.SSLContext | None:
    """Return a context for TLS 1.2 or newer, or None if every root is plain http.

    Without TLS the authorities are not loaded. With a proxy, TLS may be needed for the proxy.
    Raises: SettingsError if the authorities named in the environment cannot be read.
    """
    if not has_proxy and all(urlsplit(root).scheme == "http" for root in roots if root):
        return None
    name = "SSL_CERT_FILE" if os.environ.get("SSL_CERT_FILE") else "SSL_CERT_DIR"
    path = os.environ.get(name)
    try:
        if path and name == "SSL_CERT_DIR":
            # OpenSSL treats a missing folder like an empty one.
            next(Path(path).iterdir(), None)
        context = httpx.create_ssl_context()
    except OSError as error:  # ssl.SSLError is one too
        if not path:
            raise
        reason = "holds no certificate" if isinstance(error, ssl.SSLError) else error.strerror
        raise SettingsError(
            f"The certificate authorities of {name}, {path!r}, cannot be read: {reason}.",
            remedy="Name a PEM file that this user may read, or unset it to use the public ones.",
        ) from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def proxies() -> dict[str, str]:
    """Return the proxies named in the environment, by scheme.

    Raises: SettingsError, without the password, for an unusable one.
    """
    named = {kind: url for kind, url in getproxies().items() if kind in {"http", "https", "all"}}
    for kind, url in named.items():
        _refuse_unusable(f"{kind.upper()}_PROXY", url)
    return named


def proxy_secrets(named: Iterable[str]) -> list[str]:
    """Return the passwords in the addresses of proxies."""
    found = [urlsplit(url if "://" in url else f"http://{url}").password for url in named]
    return [password for password in found if password]


def _refuse_unusable(variable: str, url: str) -> None:
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        scheme, is_address = parts.scheme, bool(parts.hostname) and parts.port != 0
        httpx.URL(url)
    except (ValueError, httpx.InvalidURL):
        scheme, is_address = "", False
    if not is_address or scheme not in _PROXY_SCHEMES:
        raise SettingsError(
            f"{variable} is not the address of a proxy.",
            remedy="Write it as http://host:port, or unset it.",
        )
    if scheme.startswith("socks") and find_spec("socksio") is None:
        raise SettingsError(
            f"{variable} names a SOCKS proxy, which needs the package socksio.",
            remedy="Install it (pip install socksio), or name an HTTP proxy.",
        )
