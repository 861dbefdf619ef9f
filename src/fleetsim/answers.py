"""Answers to reads: a list page, or one record (contract, Endpoints).

A page has the rows of a response, and `meta` with the link to the next. A record appears up to a
minute after its creation (observed on the service).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

import numpy as np

from fleetsim import timeuuids
from fleetsim.blocks import Block, concatenate
from fleetsim.definition import Resource, SeriesRead
from fleetsim.list_requests import Condition, ListRequest, all_of, read_list_request, read_shape
from fleetsim.live_shapes import begins_empty
from fleetsim.refusals import not_found
from fleetsim.rendering import records
from fleetsim.resource_columns import ColumnKind, ResourceColumn
from fleetsim.resources import RESOURCES
from fleetsim.scenarios import spoil
from fleetsim.units import MINUTE, NEVER, NULL, SECOND, Ints, Words
from fleetsim.view import View

LONGEST_LAG = MINUTE
_LATE_ONE_IN = 5


def lag(tail: Words) -> Ints:
    """Return the delay after which each record is visible: above 0, at most 60 s."""
    share = (tail >> np.uint64(8)) % np.uint64(LONGEST_LAG // SECOND * 1000)
    return (share.astype(np.int64) + 1) * (SECOND // 1000)


def visible(view: View, block: Block) -> Block:
    """Return the rows that a caller can see now."""
    longest = LONGEST_LAG + view.scenario.late_by
    if not view.settled or len(block) == 0 or block["time"][-1] < view.now - longest:
        return block
    wait = lag(block["tail"])
    if view.scenario.late_by:
        late = (block["tail"] >> np.uint64(32)) % np.uint64(_LATE_ONE_IN) == 0
        wait = np.where(late, wait + view.scenario.late_by, wait)
    return block.take(np.flatnonzero(block["time"] + wait <= view.now))


_FIRST_CHUNK = 2048


AnswerPage = tuple[Block | None, dict[str, Any]]
"""The rows of a response, and its meta with `next` as a whole URL or null."""


def read_page(view: View, list_request: ListRequest, address: str) -> AnswerPage:
    """Return the requested page; `address` is the URL before the query."""
    if list_request.resource.rows is None:
        return _series_page(view, list_request, address)
    block = all_of(view, list_request.conditions, list_request.resource.rows(view))
    if _by_id(list_request):
        return _id_page(view, list_request, address, block)
    return _offset_page(view, list_request, address, block)


def _link(
    list_request: ListRequest, address: str, moved: Mapping[str, Any], without: Sequence[str] = ()
) -> str:
    """Return the URL of another page: other parameters kept, the cursor moved."""
    dropped = {"limit", *without, *moved}
    kept = [pair for pair in list_request.parameters if pair[0] not in dropped]
    return f"{address}?{urlencode([('limit', list_request.limit), *kept, *moved.items()])}"


def _by_id(list_request: ListRequest) -> bool:
    """Return whether the caller pages by id: ascending, and no parameter changes that."""
    if not list_request.resource.id_paging:
        return False
    return any(condition.op in ("gt", "gte") for condition in list_request.bounds("id"))


def _id_page(view: View, list_request: ListRequest, address: str, block: Block) -> AnswerPage:
    """Return the first rows with ids above the given one."""
    shown = block.take(slice(0, list_request.limit))
    following = None
    if len(block) > list_request.limit:
        ids = list_request.resource.by_name["id"].read(view, shown)
        following = _link(list_request, address, {"id__gt": ids[-1]}, ("id__gte", "offset"))
    meta = {"limit": list_request.limit, "next": following, "offset": 0, "previous": None}
    return shown if len(shown) else None, meta


def _offset_page(view: View, list_request: ListRequest, address: str, block: Block) -> AnswerPage:
    """Return the rows from the offset on, in the requested order."""
    block = _ordered(view, list_request, block)
    limit, offset = list_request.limit, list_request.offset
    shown = block.take(slice(offset, offset + limit))
    following = previous = None
    if len(block) > offset + limit:
        following = _link(list_request, address, {"offset": offset + limit})
    if offset > 0:
        previous = _link(list_request, address, {"offset": max(offset - limit, 0)})
    meta = {"limit": limit, "next": following, "offset": offset, "previous": previous}
    return shown if len(shown) else None, meta


def _ordered(view: View, list_request: ListRequest, block: Block) -> Block:
    """Return rows in the requested order; ties stay in the resource's own order."""
    if not list_request.order_by or len(block) == 0:
        return block
    column = list_request.resource.by_name[list_request.order_by.removeprefix("-")]
    raw = np.asarray(column.read(view, block))
    keys = np.unique(raw.astype(str) if raw.dtype == object else raw, return_inverse=True)[1]
    if list_request.order_by.startswith("-"):
        keys = -keys
    return block.take(np.argsort(keys, kind="stable"))


def _series_page(view: View, list_request: ListRequest, address: str) -> AnswerPage:
    """Return the next records in time order, and whether more follow."""
    ascending = (
        list_request.resource.ascending or list_request.order_by == list_request.resource.cursor
    )
    parts: list[Block] = []
    missing = list_request.limit + 1
    for block in _matching(view, list_request, newest_first=not ascending):
        ordered = block if ascending else block.take(slice(None, None, -1))
        parts.append(ordered.take(slice(0, missing)))
        missing -= len(parts[-1])
        if missing == 0:
            break
    if not parts:
        return None, {"limit": list_request.limit, "next": None}
    found = concatenate(parts)
    shown = found.take(slice(0, list_request.limit))
    following = None
    if len(found) > list_request.limit:
        last = timeuuids.to_text(shown["time"][-1:], shown["tail"][-1:])[0]
        op = "gt" if ascending else "lt"
        following = _link(list_request, address, {f"{list_request.resource.cursor}__{op}": last})
    return shown, {"limit": list_request.limit, "next": following}


def _matching(view: View, list_request: ListRequest, *, newest_first: bool) -> Iterator[Block]:
    """Yield the non-empty blocks of matching, visible records."""
    resource = list_request.resource
    assert resource.series is not None
    devices, conditions = _pick_devices(view, list_request)
    since, until = _window(list_request, conditions)
    until = min(until, view.now + 1)
    read = SeriesRead(
        devices=devices,
        since=since,
        until=until,
        newest_first=newest_first,
        want=list_request.limit + 1,
    )
    for block in resource.series(view, read):
        for chunk in _chunks(block.between(since, until), newest_first=newest_first):
            settled = visible(view, chunk) if resource.lags else chunk
            found = all_of(view, conditions, resource.keep(view, settled))
            if len(found):
                yield found


def _chunks(block: Block, *, newest_first: bool) -> Iterator[Block]:
    """Yield a block in growing pieces, so that one page does not filter a whole day."""
    size, done, total = _FIRST_CHUNK, 0, len(block)
    while done < total:
        here = min(size, total - done)
        first = total - done - here if newest_first else done
        yield block.take(slice(first, first + here))
        done += here
        size *= 2


def _pick_devices(view: View, list_request: ListRequest) -> tuple[Ints | None, list[Condition]]:
    """Return the requested devices as row numbers, and the remaining conditions."""
    name = list_request.resource.device
    asked = [c for c in list_request.bounds(name) if c.op in ("exact", "in")]
    if not asked:
        return None, list(list_request.conditions)
    column = asked[0].column
    fleet = view.world.fleet
    ids = fleet.net_device_ids if column.to == "net_devices" else fleet.router_ids
    wanted = asked[0].value if asked[0].op == "in" else [asked[0].value]
    rows = ids.rows(np.unique(np.array(wanted, dtype=np.int64)))
    rest = [condition for condition in list_request.conditions if condition is not asked[0]]
    return rows[rows >= 0], rest


def _window(list_request: ListRequest, conditions: list[Condition]) -> tuple[int, int]:
    """Return a [since, until) that holds every record the conditions could match."""
    since, until = 0, NEVER
    for condition in conditions:
        kind, op = condition.column.kind, condition.op
        if condition.column.name not in (
            "created_at",
            "action__timestamp",
            list_request.resource.cursor,
        ):
            continue
        if op in ("in", "isnull"):
            continue
        bound = (
            timeuuids.instant_of(condition.value[0]) if kind is ColumnKind.UUID else condition.value
        )
        if op in ("gt", "gte", "exact"):
            since = max(since, bound)
        if op in ("lt", "lte", "exact"):
            until = min(until, bound + 1)
    return since, until


_PARTS = {"configuration_manager": "configuration_managers"}
"""The resource whose record a part of a router is."""


def list_records(view: View, resource: Resource, query: str, address: str) -> dict[str, Any]:
    """Return the envelope of a list request (service contract, Endpoints)."""
    list_request = read_list_request(resource, query)
    if view.scenario.is_live and begins_empty(resource.name, dict(list_request.parameters)):
        link = f"{address}?{urlencode([*list_request.parameters, ('offset', 0)])}"
        meta = {"limit": list_request.limit, "next": link, "offset": 0, "previous": None}
        return {"data": [], "meta": meta}
    block, meta = read_page(view, list_request, address)
    found: list[dict[str, Any]] = []
    if block is not None:
        found = records(view, list_request.columns, block)
        for name in list_request.expand:
            _expand(view, resource.by_name[name], block, found)
    return spoil(view.scenario, resource.name, {"data": found, "meta": meta})


def one_record(view: View, resource: Resource, key: str, query: str = "") -> dict[str, Any]:
    """Return one record by its key, with the requested fields and expanded relations.

    Raises: Refusal (404) for a key that does not exist or that the caller may not see, or for
    an unknown field or relation.
    """
    columns, expand = read_shape(resource, query)
    column = resource.by_name.get(resource.key)
    if column is None or (resource.lags and resource.rows is None):
        raise not_found()
    wanted = Condition(column, "exact", _read_key(column, key))
    block = all_of(view, [wanted], _rows(view, resource))
    if len(block) == 0:
        raise not_found()
    found = records(view, columns, block)
    for name in expand:
        _expand(view, resource.by_name[name], block, found)
    return found[0]


def router_part(view: View, key: str, part: str, query: str, address: str) -> dict[str, Any]:
    """Return a router's configuration record, or the list of its LANs.

    Raises: Refusal (404) for a router that does not exist or that the caller may not see.
    """
    one_record(view, RESOURCES["routers"], key)
    of_router = "&".join(filter(None, [query, f"router={key}"]))
    if part == "lans":
        return list_records(view, RESOURCES["router_lans"], of_router, address)
    found = list_records(view, RESOURCES["configuration_managers"], of_router, address)["data"]
    if not found:
        raise not_found()
    record: dict[str, Any] = found[0]
    return record


def _read_key(column: ResourceColumn, key: str) -> Any:
    """Return a key from a path as its column's raw value, or refuse (404)."""
    try:
        if column.kind is ColumnKind.UUID:
            return timeuuids.parse(key)
        if column.kind is ColumnKind.TEXT:
            return key
        number = int(key) if key.isascii() and key.isdigit() else -1
    except ValueError:
        raise not_found() from None
    if not 0 <= number < 2**62:
        raise not_found()
    return number


def _rows(view: View, resource: Resource) -> Block:
    """Return every row of a resource whose records can be read one by one."""
    if resource.rows is not None:
        return resource.rows(view)
    assert resource.series is not None
    return next(iter(resource.series(view, SeriesRead())))


def _expand(view: View, column: ResourceColumn, block: Block, found: list[dict[str, Any]]) -> None:
    """Turn one relation of each record into the related record, one level deep."""
    ids = np.asarray(column.read(view, block))
    target = RESOURCES[_PARTS.get(column.part, column.to)]
    key = target.by_name["router" if column.part else target.key]
    wanted = Condition(key, "in", sorted({value for value in ids.tolist() if value != NULL}))
    related = all_of(view, [wanted], target.snapshot(view))
    by_id: dict[int, dict[str, Any]] = {}
    if len(related):
        keys = np.asarray(key.read(view, related)).tolist()
        by_id = dict(zip(keys, records(view, target.shown, related), strict=True))
    for record, value in zip(found, ids.tolist(), strict=True):
        if column.name in record and value != NULL:
            record[column.name] = by_id.get(value)
