"""Sends requests to the ASGI application directly: an HTTP client would refuse to send some."""

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote_to_bytes


@dataclass
class Answer:
    """One response; `head` has lower-case names."""

    status: int = 0
    head: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    def json(self) -> Any:
        """Return the body; control characters may be raw, as observed."""
        return json.loads(self.body, strict=False)


@dataclass(frozen=True)
class Request:
    """One request, as bytes that go on the wire."""

    method: str
    target: bytes
    headers: tuple[tuple[bytes, bytes], ...] = ()
    body: bytes = b""

    def __str__(self) -> str:
        body = f" {self.body[:300]!r}" if self.body else ""
        return f"{self.method} {self.target[:300].decode('latin-1')}{body}"


async def ask(app: Callable[..., Awaitable[None]], request: Request) -> Answer:
    """Return the application's response to one request."""
    path, _, query = request.target.partition(b"?")
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "scheme": "http",
        "method": request.method, "path": _decoded(path), "raw_path": path, "query_string": query,
        "root_path": "", "headers": list(request.headers), "server": ("127.0.0.1", 8700),
        "client": ("127.0.0.1", 1), "extensions": {},
    }  # fmt: skip
    found = Answer()
    sent = iter([{"type": "http.request", "body": request.body, "more_body": False}])

    async def receive() -> dict[str, Any]:
        return next(sent, {"type": "http.disconnect"})

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            found.status = message["status"]
            found.head = {k.decode("latin-1"): v.decode("latin-1") for k, v in message["headers"]}
        else:
            found.body += message.get("body", b"")

    await app(scope, receive, send)
    return found


def _decoded(path: bytes) -> str:
    return unquote_to_bytes(path).decode("utf-8", "replace")
