"""Who may read the pages: this machine's browser, or one that sends the token.

Without a token, the name in the request must be this machine's own, so that a page of another site
cannot read through a name that it points here (DNS rebinding). With one, every request carries it:
in a cookie that the log-in page sets (which a browser sends to no other name), as a bearer, or in a
header that a reverse proxy adds.
"""

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie

from pydantic import SecretStr
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fleetlake.machine.loopback import is_loopback_host
from fleetlake.serving.host_names import NOT_OURS, host_name

COOKIE = "fleetlake_dashboard"
PROXY_HEADER = "X-Fleetlake-Token"
LOGIN = "/login"
STEPS = "/api/findings"
"""The one address that writes, if the server may: what readers do about findings."""

HEALTH = "/healthz"

_OPEN = frozenset({LOGIN, HEALTH})
"""Answered without the token, beside the static files."""

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
        "connect-src 'self'; worker-src 'self' blob:; form-action 'self'; base-uri 'none'; "
        "frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "geolocation=(), camera=(), microphone=()",
}
"""Sent with every answer: nothing but this server's own files, and no other site may show them."""


@dataclass(frozen=True)
class Token:
    """The secret that lets a reader in from another machine."""

    secret: SecretStr

    @property
    def cookie(self) -> str:
        """What a browser keeps instead of the token: the token cannot be computed from it."""
        secret = self.secret.get_secret_value().encode()
        return hmac.new(secret, b"fleetlake dashboard", hashlib.sha256).hexdigest()

    def is_right(self, given: str) -> bool:
        """Return whether a text is the token."""
        expected = self.secret.get_secret_value().encode()
        return hmac.compare_digest(given.encode(errors="replace"), expected)

    def is_in(self, headers: Mapping[str, str]) -> bool:
        """Return whether the headers of a request carry the token."""
        bearer = headers.get("authorization", "")
        if bearer[:7].lower() == "bearer " and self.is_right(bearer[7:].strip()):
            return True
        if self.is_right(headers.get(PROXY_HEADER.lower(), "")):
            return True
        kept = cookie_in(headers.get("cookie", ""))
        return hmac.compare_digest(kept.encode(errors="replace"), self.cookie.encode())


def cookie_in(header: str) -> str:
    """Return our cookie's value in a `Cookie` header, empty if it is not there."""
    try:
        found: SimpleCookie = SimpleCookie(header)
    except CookieError:
        return ""
    return found[COOKIE].value if COOKIE in found else ""


class AccessControl:
    """Refuses requests that may not read, and adds the security headers to every answer.

    Without a token, only requests to this machine's own names are answered.
    """

    def __init__(self, app: ASGIApp, *, token: Token | None, is_writable: bool = False) -> None:
        self._app = app
        self._token = token
        self._is_writable = is_writable

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer or refuse one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        app = self._refusal(scope) or self._app
        await app(scope, receive, send_with_headers)

    def _refusal(self, scope: Scope) -> ASGIApp | None:
        """Return the answer to a request that may not read, None for the others."""
        headers = Headers(scope=scope)
        path: str = scope["path"]
        is_login = path == LOGIN and self._token is not None
        is_step = path == STEPS and self._is_writable
        if scope["method"] not in {"GET", "HEAD"} and not is_login and not is_step:
            return PlainTextResponse("This server is read-only.", 405, {"Allow": "GET, HEAD"})
        if self._token is None:
            return None if is_loopback_host(host_name(scope)) else NOT_OURS
        if path in _OPEN or path.startswith("/static/") or self._token.is_in(headers):
            return None
        if "text/html" in headers.get("accept", ""):  # a browser asks for a page
            return RedirectResponse(LOGIN, 303)
        return PlainTextResponse("The token is missing or wrong.", 401)
