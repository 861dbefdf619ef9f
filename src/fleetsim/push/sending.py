"""Sends one signed POST to a destination (service contract, Signing of pushed messages)."""

import hashlib
import hmac
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import httpx

SIGNATURE_HEADER: Final = "X-PORTAL-Signature"
_TIMEOUT_S: Final = 10.0

Sender = Callable[[str, bytes, Mapping[str, str]], Awaitable[str | None]]
"""Posts a body with headers to a URL. Returns None, or an error text."""


def sign(body: bytes, secret: str) -> str:
    """Return the hex SHA-256 HMAC of a body; an empty body counts as a single space.

    >>> sign(b"", "s") == sign(b" ", "s")
    True
    """
    return hmac.new(secret.encode(), body or b" ", hashlib.sha256).hexdigest()


async def send_over_http(url: str, body: bytes, headers: Mapping[str, str]) -> str | None:
    """Post over HTTP or HTTPS; any response other than 2xx is a failure."""
    try:
        async with httpx.AsyncClient(
            timeout=_TIMEOUT_S,
            verify=False,  # noqa: S501 - receivers under test have self-signed certificates
        ) as client:
            answer = await client.post(url, content=body, headers=dict(headers))
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        return f"{type(error).__name__}: {error}"
    return None if answer.is_success else f"HTTP {answer.status_code}"
