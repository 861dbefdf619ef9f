"""Every refusal of the service with its body (service contract, Errors).

Refusal
├── unauthorized        401, plain-string exception
├── forbidden           403
├── not_found           404
├── method_not_allowed  405, names path and method
├── validation          409, or 400 for a value that cannot be read
├── server_error        500, malformed JSON
└── too_many_calls      429
"""

from collections.abc import Mapping
from typing import Any, Final

LONGEST_TEXT: Final = 200


class Refusal(Exception):
    """An error response: `status`, JSON `body`, and further `headers`."""

    def __init__(
        self, status: int, body: Mapping[str, Any], headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(str(body))
        self.status = status
        self.body = body
        self.headers = dict(headers or {})


def _body(kind: str, message: str, errors: list[dict[str, Any]]) -> dict[str, Any]:
    return {"errors": errors, "exception": {"type": kind, "message": message}}


def unauthorized(message: str = "missing or invalid keys") -> Refusal:
    """Return the 401, whose exception is a plain string."""
    body = {"status_code": 401, "exception": "unauthorized", "message": message, "success": False}
    return Refusal(401, body)


def forbidden() -> Refusal:
    """Return the 403 for a role without permission."""
    return Refusal(403, _body("error", "forbidden", []))


def not_found() -> Refusal:
    """Return the 404 of an unknown path or record."""
    return Refusal(404, _body("error", "not found", []))


def method_not_allowed(path: str, method: str) -> Refusal:
    """Return the 405, which names the path and method of the request."""
    errors = [{"path": path}, {"method": method}]
    return Refusal(405, _body("error", "method not allowed", errors))


def validation(field: str, reason: str, *, status: int = 409) -> Refusal:
    """Return a validation failure that maps one field to its reason.

    Both may contain text from the client, so both are cut to `LONGEST_TEXT` characters.
    """
    errors = [{field[:LONGEST_TEXT]: reason[:LONGEST_TEXT]}]
    return Refusal(status, _body("validation", "bad or missing data", errors))


def server_error(message: str) -> Refusal:
    """Return the 500 that holds the parser's or server's text."""
    return Refusal(500, _body("server_error", message, []))


def too_many_calls(*, retry_after: int | None) -> Refusal:
    """Return the 429, with or without Retry-After."""
    headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
    return Refusal(429, _body("error", "too many requests", []), headers)
