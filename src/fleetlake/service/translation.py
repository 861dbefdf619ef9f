"""Answers of other services, translated to pages of v2, so that everything behind reads one form.

A service is described by where its records, its link to the next page and its errors are. What
does not fit: pages without a link to the next one, links to another path, records as an object by
id, keys other than a bearer token, and answers that are not JSON.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import httpx
import msgspec

from fleetlake.decoding.records import strict_json
from fleetlake.endpoints.model import Service
from fleetlake.errors import PageUnreadable, Unreachable
from fleetlake.text.plain import one_line

_MISSING = msgspec.Raw()
_NOTHING = {b"", b"null", b"false", b'""', b"[]", b"{}"}


def v2_page(
    service: Service, response: httpx.Response, redact: Callable[[str], str] = str
) -> bytes:
    """Return a good response of another service as a page of v2, its records unchanged.

    `redact` removes tokens from a text before it is cut and quoted.

    Raises: PageUnreadable if the records are not where the service is said to have them;
    Unreachable for an answer that reports an error, which a later one may not.
    """
    body = response.content
    try:
        msgspec.json.decode(body, type=msgspec.Raw)
    except (ValueError, RecursionError):
        try:
            body = strict_json(body)
        except (ValueError, RecursionError) as error:
            raise _unreadable(service, f"is not JSON ({one_line(error)})") from None
    if service.error and bytes(failure := _member(body, service.error)) not in _NOTHING:
        raise Unreachable(
            f"{service.name} returned 200 with an error: "
            f"{one_line(redact(bytes(failure).decode('utf-8', 'replace')))}.",
            remedy="The service has a problem, or does not take the request; run again later.",
        )
    records = bytes(_member(body, service.records))
    if not records.lstrip().startswith(b"["):
        where = ".".join(service.records) or "the answer itself"
        raise _unreadable(service, f"has no list of records in {where}")
    if service.next:
        link: Any = msgspec.json.decode(bytes(_member(body, service.next)) or b"null")
    else:
        link = next((one["url"] for one in response.links.values() if _is_next(one)), None)
    if not isinstance(link, str | None):
        raise _unreadable(service, f"has no address in {'.'.join(service.next)}")
    meta = msgspec.json.encode({"limit": 1, "next": link})
    return b'{"data":%b,"meta":%b}' % (records, meta)


def _is_next(link: Mapping[str, str]) -> bool:
    """Return whether a link leads to the next page; names and relations are of any case."""
    relations = [value for name, value in link.items() if name.lower() == "rel"]
    return any("next" in value.lower().split() for value in relations)


def _member(body: bytes, path: Sequence[str]) -> msgspec.Raw:
    """Return the JSON of the member at a path of a JSON text; an empty one if it is missing."""
    found = msgspec.Raw(body)
    for name in path:
        try:
            found = msgspec.json.decode(found, type=dict[str, msgspec.Raw]).get(name, _MISSING)
        except (ValueError, RecursionError):
            return _MISSING
    return found


def _unreadable(service: Service, why: str) -> PageUnreadable:
    return PageUnreadable(
        f"The answer of {service.name} {why}.",
        remedy=f"Check [services.{service.name}] in the endpoint file. No record was taken from "
        "it.",
    )
