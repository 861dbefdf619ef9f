"""What clients send and get as bytes: path and query, JSON bodies, and JSON output.

Output has raw control characters, as the live service sends them.
"""

from collections.abc import Container
from typing import Any, Final
from urllib.parse import quote, unquote

import orjson
from starlette.requests import Request

from fleetsim.refusals import validation

_STAND_INS: Final = {"\ue009": b"\t", "\ue00a": b"\n", "\ue01b": b"\x1b"}
"""Private-use characters that represent control characters until the body is written.

The JSON writer would escape the real ones, and a strict parser would then accept the page.
"""
_ENCODED: Final = {stand_in.encode(): raw for stand_in, raw in _STAND_INS.items()}
_ESCAPED: Final = {b"\t": b"\\t", b"\n": b"\\n", b"\x1b": b"\\u001b"}
_MARK: Final = b"\xee"
"""The first byte of every stand-in: searching for one byte is fast."""

TAB, NEWLINE, ESCAPE = _STAND_INS


def dump_page(value: Any) -> bytes:
    """Return JSON in which control characters inside strings are raw bytes (observed)."""
    body = orjson.dumps(value)
    if _MARK in body:
        for stand_in, raw in _ENCODED.items():
            body = body.replace(stand_in, raw)
    return body


def dump_line(value: Any) -> bytes:
    """Return one line of strict JSON, ending in a newline."""
    body = orjson.dumps(value)
    if _MARK in body:
        for stand_in, raw in _ENCODED.items():
            body = body.replace(stand_in, _ESCAPED[raw])
    return body + b"\n"


_DEFAULT_PORTS = {"http": 80, "https": 443}


def path_of(request: Request) -> str:
    """Return the path as it was sent, still percent-encoded.

    In a decoded path, a `%3F` would start a query, and a `%2F` would split a record's key.
    """
    sent: bytes | None = request.scope.get("raw_path")
    return quote(request.scope["path"]) if sent is None else sent.decode("latin-1")


def parts_of(path: str, root: str) -> list[str]:
    """Return the decoded parts of a path below its root, empty ones left out.

    >>> parts_of("/api/v2/routers/1%2F2/", "/api/v2")
    ['routers', '1/2']
    """
    return [unquote(part) for part in path.removeprefix(root).split("/") if part]


def longest_path(known: Container[str], parts: list[str]) -> tuple[str, list[str]]:
    """Return the longest known path that parts begin with, empty if none is, and all other parts.

    >>> longest_path({"assets", "assets/moves"}, ["assets", "moves", "7"])
    ('assets/moves', ['7'])
    """
    for end in range(len(parts), 0, -1):
        if "/".join(parts[:end]) in known:
            return "/".join(parts[:end]), parts[end:]
    return "", parts


def query_of(request: Request) -> str:
    """Return the query as it was sent."""
    sent: bytes = request.scope["query_string"]
    return sent.decode("latin-1")


def origin_of(request: Request) -> str:
    """Return the scheme and host that the caller used, or those that the server listens on."""
    scheme = request.scope["scheme"]
    host = request.headers.get("host")
    if not host:
        name, port = request.scope.get("server") or ("localhost", None)
        host = name if port in (None, _DEFAULT_PORTS.get(scheme)) else f"{name}:{port}"
    return f"{scheme}://{host}"


DEEPEST: Final = 100
"""Maximum nesting of a body. Records nest bodies further, and the JSON writer stops at 254 levels,
so a deeper body could be stored but never listed."""


def parse_json(body: bytes) -> Any:
    """Return the value of a JSON body.

    Raises: orjson.JSONDecodeError for malformed JSON, Refusal (validation) for a value that is
    nested too deeply.
    """
    value = orjson.loads(body)
    if _depth_exceeds(value, DEEPEST):
        raise validation("body", f"nested more than {DEEPEST} levels deep", status=400)
    return value


def _depth_exceeds(value: Any, levels: int) -> bool:
    """Return whether objects and arrays nest deeper; without recursion, which has limits too."""
    level = [value]
    for _ in range(levels + 1):
        level = [part for item in level for part in _parts(item)]
        if not level:
            return False
    return True


def _parts(value: Any) -> Any:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()
