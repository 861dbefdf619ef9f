"""Sends signed POSTs to a destination (service contract, Signing of pushed messages)."""

import hashlib
import hmac
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
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


class HttpSender:
    """Posts over HTTP or HTTPS; any response other than 2xx is a failure.

    Within `kept_alive`, connections are reused.
    """

    def __init__(self) -> None:
        self._kept: httpx.AsyncClient | None = None
        self._keeps = False

    async def __call__(self, url: str, body: bytes, headers: Mapping[str, str]) -> str | None:
        """Post a body; return None, or an error text."""
        if not self._keeps:
            async with _new_client() as client:
                return await _post(client, url, body, headers)
        self._kept = self._kept or _new_client()  # most seconds push nothing and need none
        return await _post(self._kept, url, body, headers)

    @asynccontextmanager
    async def kept_alive(self) -> AsyncIterator[None]:
        """Keep connections open until the end of the block."""
        self._keeps = True
        try:
            yield
        finally:
            self._keeps = False
            if self._kept is not None:
                client, self._kept = self._kept, None
                await client.aclose()


async def send_over_http(url: str, body: bytes, headers: Mapping[str, str]) -> str | None:
    """Post once, over a connection of its own."""
    return await HttpSender()(url, body, headers)


def _new_client() -> httpx.AsyncClient:
    return httpx.AsyncClient(
        timeout=_TIMEOUT_S,
        verify=False,  # noqa: S501 - receivers under test have self-signed certificates
    )


async def _post(
    client: httpx.AsyncClient, url: str, body: bytes, headers: Mapping[str, str]
) -> str | None:
    try:
        answer = await client.post(url, content=body, headers=dict(headers))
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        return f"{type(error).__name__}: {error}"
    return None if answer.is_success else f"HTTP {answer.status_code}"
