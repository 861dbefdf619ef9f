"""The v3 API: answers one request."""

import time
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl, urlencode

import orjson
from starlette.requests import Request
from starlette.responses import Response

from fleetsim.callers import KEY_PAIRS, V3_TOKEN
from fleetsim.definition import Collection
from fleetsim.ledger import Fields
from fleetsim.list_requests import LONGEST_NUMBER
from fleetsim.live_shapes import live_document
from fleetsim.refusals import Refusal
from fleetsim.rendering import with_moving_hosts
from fleetsim.simulation import Simulation
from fleetsim.v3.collections import AREAS
from fleetsim.v3.documents import MEDIA_TYPE, OWNER, Document, V3Refusal, answer
from fleetsim.v3.users import write_user
from fleetsim.view import View
from fleetsim.wire import longest_path, origin_of, parse_json, parts_of, path_of, query_of
from fleetsim.writing.readers import WriteContext

_COMMON = ("fields", "id", "type")
DEFAULT_PAGE = 20
_WRITES = {"POST": 1, "PATCH": 2, "PUT": 2, "DELETE": 2}
"""Methods that write, with the number of path parts that each requires."""


async def serve_v3(simulation: Simulation, request: Request) -> Response:
    """Answer one v3 request."""
    path = path_of(request)
    parts = [part for part in parts_of(path, "/api/v3") if part not in AREAS]
    name, more = longest_path(simulation.lists.collections, parts)
    known = f"v3/{name}" if name else "v3"
    simulation.meter.count(known, counted=False)
    try:
        _check_path(path, name)
        _check_headers(request)
        simulation.meter.admit(time.monotonic())
        return await simulation.faults.around(lambda: _answer(simulation, request, [name, *more]))
    except V3Refusal as refusal:
        return answer(refusal.body, refusal.status)
    except Refusal as refusal:
        return _translated(refusal)


def _check_path(path: str, name: str) -> None:
    """Refuse unknown paths, and beta paths that end in a slash (observed)."""
    if (path.endswith("/") and "/beta/" in path) or not name:
        raise V3Refusal(404, "not found")


def _translated(refusal: Refusal) -> Response:
    """Return a v2 refusal in the format of v3; a rate limit is a 409 without an errors array."""
    if refusal.status == HTTPStatus.TOO_MANY_REQUESTS:
        return answer({"message": "too many requests"}, 409)
    detail = "; ".join(f"{k}: {v}" for e in refusal.body.get("errors", []) for k, v in e.items())
    status = 400 if refusal.status == HTTPStatus.INTERNAL_SERVER_ERROR else refusal.status
    return answer(V3Refusal(status, "invalid request", detail).body, status)


def _check_headers(request: Request) -> None:
    """Refuse a call without the bearer token or the JSON:API media type."""
    if request.headers.get("authorization") != f"Bearer {V3_TOKEN}":
        raise V3Refusal(401, "unauthorized")
    if MEDIA_TYPE not in request.headers.get("accept", ""):
        raise V3Refusal(406, "not acceptable", f"Accept must be {MEDIA_TYPE}")
    sent = request.headers.get("content-type")
    if sent != MEDIA_TYPE and (sent is not None or request.method in ("POST", "PATCH", "PUT")):
        raise V3Refusal(415, "unsupported media type", f"Content-Type must be {MEDIA_TYPE}")


async def _answer(simulation: Simulation, request: Request, parts: list[str]) -> Response:
    body = await request.body()  # others may write while it arrives, so make the view afterwards
    _, administrator = KEY_PAIRS["admin-id"]
    view = simulation.view_of(administrator, origin_of(request))
    collection = simulation.lists.collections[parts[0]]
    if request.method == "GET" and not parts[2:]:
        one = parts[1:]
        found = {"data": _one(view, collection, *one)} if one else _page(view, collection, request)
        return answer(with_moving_hosts(view, found))
    if parts[0] != "users" or _WRITES.get(request.method) != len(parts):
        raise V3Refusal(405, "method not allowed")
    context = WriteContext(simulation, administrator, view)
    attributes = _attributes(body) if request.method != "DELETE" else {}
    written = write_user(context, request.method, parts[1] if parts[1:] else None, attributes)
    if written is None:
        return answer(None, 204)
    return answer({"data": written}, 201 if request.method == "POST" else 200)


def _attributes(body: bytes) -> Fields:
    """Return the attributes of a JSON:API document."""
    try:
        found: Any = parse_json(body)["data"]["attributes"]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        raise V3Refusal(400, "invalid document", "data.attributes is required") from None
    if not isinstance(found, dict):
        raise V3Refusal(400, "invalid document", "data.attributes must be an object")
    return found


def _one(view: View, collection: Collection, key: str) -> Document:
    for found in collection.everything(view):
        if found["id"] == key:
            return _with_fields(found, [])
    raise V3Refusal(404, "not found")


def _page(view: View, collection: Collection, request: Request) -> Document:
    """Return a page; the last one has null as `links.next`.

    The cursor is the number of the last item, not a count, so a deletion while a client pages does
    not shift other items.
    """
    given = dict(parse_qsl(query_of(request), keep_blank_values=True))
    size, after, filters = _read(collection, given)
    if collection.required and not filters.get(collection.required):
        raise V3Refusal(409, "invalid request", f"filter[{collection.required}] is required")
    fields, order = filters.pop("fields", []), given.get("sort", "")
    if filters or order:
        every = collection.numbered(view, with_hidden="id" in filters)
        matching = [
            (number, one) for number, one in every if _matches(one, filters, collection.required)
        ]
        if order:
            matching = list(enumerate(_sorted([one for _, one in matching], order)))
        count = len(matching)
        found = [(number, one) for number, one in matching if number > after][: size + 1]
    else:
        ids = collection.ids(view)
        count = len(ids)
        first = [number for number in ids if number > after][: size + 1]
        found = list(zip(first, collection.items(view, first), strict=True))
    following = None
    if len(found) > size:
        moved = {**given, "page[size]": str(size), "page[after]": str(found[size - 1][0])}
        following = f"{view.origin}{path_of(request)}?{urlencode(moved)}"
    pagination = {"count": count, "pages": -(-count // size)}
    items = [_with_fields(one, fields) for _, one in found[:size]]
    if view.scenario.is_live:
        items = [live_document(one["type"], one) for one in items]
    return {
        "data": items,
        "links": {"next": following},
        "meta": {"pagination": pagination} if collection.is_counted else {},
    }


def _sorted(found: list[Document], order: str) -> list[Document]:
    """Return items ordered by an attribute or the id, descending after `-`."""
    name = order.removeprefix("-")
    values = [{"id": one["id"], **one["attributes"]} for one in found]
    if any(name not in value for value in values):
        raise V3Refusal(400, "invalid parameter", "sort")
    texts = [str(value[name]) for value in values]
    places = sorted(range(len(found)), key=texts.__getitem__, reverse=order.startswith("-"))
    return [found[place] for place in places]


def _with_fields(one: Document, names: list[str]) -> Document:
    """Return an item with the named attributes only; with all if none is named."""
    attributes = {k: v for k, v in one["attributes"].items() if not names or k in names}
    return {k: v for k, v in {**one, "attributes": attributes}.items() if k != OWNER}


def _read(collection: Collection, given: dict[str, str]) -> tuple[int, int, dict[str, list[str]]]:
    """Return page size, cursor and filters; refuse other parameters."""
    size, after, filters = DEFAULT_PAGE, -1, {}
    for name, text in given.items():
        field = name.removeprefix("filter[").removesuffix("]")
        if name in ("page[size]", "page[after]"):
            if not text.isascii() or not text.isdigit() or len(text) > LONGEST_NUMBER:
                raise V3Refusal(400, "invalid parameter", name)
            size = min(int(text) or 1, collection.largest_page) if name == "page[size]" else size
            after = int(text) if name == "page[after]" else after
        elif name.startswith("filter[") and field in (*collection.filters, *_COMMON):
            filters[field] = text.split(",")
        elif name not in ("limit", "sort"):  # `page[size]` decides; clients send both
            raise V3Refusal(400, "invalid parameter", name)
    return size, after, filters


def _member(one: Document, field: str, required: str) -> Any:
    """Return an attribute, the owner by which a list must be filtered, or the id of a link."""
    link = one["relationships"].get(field, {}).get("data")
    linked = link["id"] if isinstance(link, dict) else None
    return one[OWNER] if field == required else one["attributes"].get(field, linked)


def _matches(one: Document, filters: dict[str, list[str]], required: str) -> bool:
    """Return whether an item's id, attributes and links meet every filter."""
    for field, wanted in filters.items():
        value = one[field] if field in ("id", "type") else _member(one, field, required)
        if value is None:
            return False
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if text not in wanted:
            return False
    return True
