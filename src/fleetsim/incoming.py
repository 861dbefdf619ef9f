"""Path, query and origin of a request, read from the bytes as sent."""

from urllib.parse import quote, unquote

from starlette.requests import Request

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
