"""The JSON:API objects in v3 responses."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson
from starlette.responses import Response

from fleetsim.organisation import ACCOUNTS, ROOT

MEDIA_TYPE: Final = "application/vnd.api+json"

OWNER: Final = "_device"
"""The member of an item, in the truth alone, with the id by which its list must be filtered."""

Document = dict[str, Any]


def _link(kind: str, identity: str) -> Document:
    return {"type": kind, "id": identity}


class V3Refusal(Exception):
    """A v3 refusal: its status and the errors array of its body."""

    def __init__(self, status: int, title: str, detail: str = "") -> None:
        super().__init__(title)
        self.status = status
        self.body = {"errors": [{"status": str(status), "title": title, "detail": detail}]}


Link = tuple[str, str]
"""The type and the id of a linked item."""

TENANT: Final[Link] = ("tenants", str(ACCOUNTS[ROOT].id))
"""The customer whose accounts, devices and subscriptions these are."""


def item(
    origin: str,
    kind: str,
    identity: str,
    attributes: Document,
    relationships: Mapping[str, Link | Sequence[Link]],
) -> Document:
    """Return one resource object; `relationships` map a name to one link, or to a list of links."""
    related = {
        name: {"data": _link(*links) if isinstance(links, tuple) else [_link(*x) for x in links]}
        for name, links in relationships.items()
    }
    return {
        "type": kind,
        "id": identity,
        "attributes": attributes,
        "relationships": related,
        "links": {"self": f"{origin}/api/v3/beta/{kind}/{identity}"},
    }


def answer(body: Document | None, status: int = 200) -> Response:
    """Return a v3 response."""
    content = b"" if body is None else orjson.dumps(body)
    return Response(content, status, media_type=None if body is None else MEDIA_TYPE)
