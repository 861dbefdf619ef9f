"""One change at the service: POST, PATCH or DELETE.

A change is sent once. It is sent again only if it was certainly not made: there was no connection,
or the call limit refused it. The caller looks at the list to settle an unknown outcome.
"""

from datetime import timedelta
from typing import Any

import httpx

from fleetlake.errors import (
    CredentialsRefused,
    EndpointUnavailable,
    RequestRejected,
    ServiceError,
    Throttled,
    WriteUnknown,
)
from fleetlake.service.bodies import retry_after
from fleetlake.service.client import Client
from fleetlake.service.retry import with_retries
from fleetlake.settings import WRONG_KEYS

ATTEMPTS = 4
WITHIN = timedelta(minutes=2)

_NO_RIGHTS = (
    "The role of the keys may not change this. Use keys whose role is Administrator or Full Access "
    "User, or make the change on the service's website."
)
_GONE = "It was deleted meanwhile, or FLEETLAKE_BASE_URL is wrong: list it again."
_REFUSALS: dict[int, tuple[type[ServiceError], str]] = {
    401: (CredentialsRefused, WRONG_KEYS),
    403: (EndpointUnavailable, _NO_RIGHTS),
    404: (EndpointUnavailable, _GONE),
    405: (EndpointUnavailable, _NO_RIGHTS),
}


async def send_write(
    client: Client, method: str, path: str, body: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Make one change and return the record in the response, {} if it has none.

    `path` is relative to the root of v2 and ends with a slash. The contract's statuses differ by
    resource (201, 202, 204), so every 2xx is a success. Raises: EndpointUnavailable if the keys
    may not make it (403, 405) or the record is gone (404), RequestRejected with the service's own
    words, WriteUnknown, ServiceError.
    """

    async def attempt() -> httpx.Response:
        response = await client.send_once(method, path, body)
        if response.is_success:
            return response
        raise _refusal(client, f"{method} {path}", response)

    response = await with_retries(attempt, attempts=ATTEMPTS, within=WITHIN)
    try:
        record = response.json()
    except ValueError:
        return {}
    return record if isinstance(record, dict) else {}


def _refusal(client: Client, what: str, response: httpx.Response) -> ServiceError:
    """Return the error for a status other than 2xx."""
    status = response.status_code
    what = f"{what} returned {status}: {client.excerpt(response).rstrip('.')}."
    if status in _REFUSALS:
        kind, remedy = _REFUSALS[status]
        return kind(what, remedy=remedy)
    if status == httpx.codes.TOO_MANY_REQUESTS:
        return Throttled(
            what,
            remedy="Run again in a minute: other clients share the call limit.",
            wait=retry_after(response),
        )
    if status == httpx.codes.REQUEST_TIMEOUT or status >= httpx.codes.INTERNAL_SERVER_ERROR:
        remedy = "Check the list before you repeat the change: it may have been made."
        return WriteUnknown(what, remedy=remedy, was_answered=True)
    if response.is_redirect:
        return RequestRejected(
            what, remedy="Set FLEETLAKE_BASE_URL to the root that answers without a redirect."
        )
    return RequestRejected(what, remedy="Correct what the service's message names.")
