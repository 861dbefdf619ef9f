"""What the environment says of the way to the service: certificate authorities and proxies."""

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
    """Return a context for TLS 1.2 or newer, or None where all is plain http.

    That spares the load of the authorities. A proxy may itself be spoken to by TLS.
    Raises: SettingsError if the authorities that the environment names cannot be read.
    """
    if not has_proxy and all(urlsplit(root).scheme == "http" for root in roots if root):
        return None
    name = "SSL_CERT_FILE" if os.environ.get("SSL_CERT_FILE") else "SSL_CERT_DIR"
    place = os.environ.get(name)
    try:
        if place and name == "SSL_CERT_DIR":
            # OpenSSL takes a folder that is not there for an empty one.
            next(Path(place).iterdir(), None)
        context = httpx.create_ssl_context()
    except OSError as error:  # ssl.SSLError is one too
        if not place:
            raise
        reason = "holds no certificate" if isinstance(error, ssl.SSLError) else error.strerror
        raise SettingsError(
            f"The certificate authorities of {name}, {place!r}, cannot be read: {reason}.",
            remedy="Name a PEM file that this user may read, or unset it to trust the public ones.",
        ) from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def proxies() -> dict[str, str]:
    """Return the proxies that the environment names, by what they are for.

    Raises: SettingsError for one that cannot be used. What it says holds no password.
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
            f"{variable} is no address of a proxy.",
            remedy="Write it as http://host:port, or unset it.",
        )
    if scheme.startswith("socks") and find_spec("socksio") is None:
        raise SettingsError(
            f"{variable} names a SOCKS proxy, for which a package is missing: socksio.",
            remedy="Name an HTTP proxy, or install it: pip install socksio.",
        )
