"""The name by which a request addresses a server: the defence against DNS rebinding.

A page of another site can point a name of its own at this machine, and then read what the server
answers to that name. The name in the request tells: the browser sends the site's.
"""

from collections.abc import Collection
from ipaddress import ip_address

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from fleetlake.machine.loopback import is_loopback_host

MISDIRECTED = 421

NOT_OURS = PlainTextResponse("Use the address http://127.0.0.1 or localhost.", MISDIRECTED)
"""The answer to a request that does not address this machine by a name of its own."""


def host_name(scope: Scope) -> str:
    """Return the name that a request addresses, in lower case and without its port.

    >>> host_name({"type": "http", "headers": [(b"host", b"[::1]:8710")]})
    '::1'
    """
    host = Headers(scope=scope).get("host", "").lower()
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdigit() else host).strip("[]")


def is_local_name(name: str, also: Collection[str] = ()) -> bool:
    """Return whether no other site can point the name here: an address, or a name without a dot.

    `also` are further names that belong to this server.

    >>> is_local_name("10.1.2.3"), is_local_name("receiver"), is_local_name("site.example")
    (True, True, False)
    """
    try:
        return bool(ip_address(name))
    except ValueError:
        return (bool(name) and "." not in name) or name in {*map(str.lower, also)}


class OwnNamesOnly:
    """Answers only requests that address this machine by a name of its own."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer or refuse one request."""
        app = self._app
        if scope["type"] == "http" and not is_loopback_host(host_name(scope)):
            app = NOT_OURS
        await app(scope, receive, send)
