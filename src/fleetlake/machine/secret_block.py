"""Reading a Secret block of a Prefect server, without importing Prefect.

The import takes seconds and a hundred megabytes, which a process that only needs one value does not
have to pay. The address and the password are found as Prefect's own clients find them.
"""

from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import quote

import httpx

from fleetlake.errors import FleetlakeError, SettingsError, Unreachable
from fleetlake.machine.prefect_auth import API_URL, CLIENT_KEY, client_password, prefect_setting

TIMEOUT_SECONDS = 5.0


def read_secrets_block(name: str) -> tuple[str, ...]:
    """Return the secrets in a block: a text with commas, a list, or lists by any name.

    A block that does not exist has none. Raises: as `read_block`.
    """
    return tuple(secrets_in(read_block(name)))


def read_block(name: str) -> object:
    """Return the value of a Secret block, None if it does not exist.

    Raises: SettingsError without a server's address or if it refuses our password; Unreachable if
    it does not answer.
    """
    address = prefect_setting(API_URL)
    if not address:
        raise SettingsError(
            f"PREFECT_API_URL is not set, so the Secret block {name} cannot be read.",
            remedy="Export the address of the Prefect server, e.g. http://127.0.0.1:4200/api.",
        )
    user, _, password = client_password().partition(":")
    key = prefect_setting(CLIENT_KEY)
    path = f"block_types/slug/secret/block_documents/name/{quote(name, safe='')}"
    try:
        answer = httpx.get(
            f"{address.rstrip('/')}/{path}",
            params={"include_secrets": "true"},
            headers={"Authorization": f"Bearer {key}"} if key and not password else {},
            auth=(user, password) if password else None,
            timeout=TIMEOUT_SECONDS,
        )
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise _unreadable(name, address, type(error).__name__) from None
    if answer.status_code == httpx.codes.NOT_FOUND:
        return None
    if not answer.is_success:
        raise _unreadable(name, address, f"HTTP {answer.status_code}")
    try:
        return answer.json()["data"].get("value")
    except (ValueError, LookupError, TypeError, AttributeError):
        # Prefect answers so to an address without /api: with the page of its interface.
        raise _unreadable(name, address, "it answered with no block") from None


def secrets_in(value: object) -> Iterator[str]:
    """Yield the secrets in the value of a block, each once.

    >>> [*secrets_in("a, b")], [*secrets_in({"https://x/push": ["a", "b"], "https://y/push": "a"})]
    (['a', 'b'], ['a', 'b'])
    """
    yield from dict.fromkeys(_texts(value))


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield from (part.strip() for part in value.split(",") if part.strip())
    elif isinstance(value, Mapping):
        yield from (text for one in value.values() for text in _texts(one))
    elif isinstance(value, Sequence):
        yield from (text for one in value for text in _texts(one))


def _unreadable(name: str, address: str, reason: str) -> FleetlakeError:
    refused = reason in {"HTTP 401", "HTTP 403"}
    return (SettingsError if refused else Unreachable)(
        f"The Secret block {name} of the Prefect server at {address} cannot be read: {reason}.",
        remedy="Start the server, or correct PREFECT_API_URL, which ends in /api, and "
        "PREFECT_API_AUTH_STRING.",
    )
