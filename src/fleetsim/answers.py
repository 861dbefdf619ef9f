"""Answers to reads: a list page, or one record."""

from typing import Any
from urllib.parse import urlencode

import numpy as np

from fleetsim import timeuuids
from fleetsim.blocks import Block
from fleetsim.conditions import Condition, all_of
from fleetsim.definition import Resource, SeriesRead
from fleetsim.list_requests import read_list_request, read_shape
from fleetsim.live_shapes import begins_empty
from fleetsim.paging import read_page
from fleetsim.refusals import not_found
from fleetsim.rendering import records
from fleetsim.resource_columns import ColumnKind, ResourceColumn
from fleetsim.resources import RESOURCES
from fleetsim.scenarios import spoil
from fleetsim.units import NULL
from fleetsim.view import View

_PARTS = {"configuration_manager": "configuration_managers"}
"""The resource whose record a part of a router is."""


def list_records(view: View, resource: Resource, query: str, address: str) -> dict[str, Any]:
    """Return the envelope of a list request (service contract, Endpoints)."""
    list_request = read_list_request(resource, query)
    if view.scenario.is_live and begins_empty(resource.name, dict(list_request.parameters)):
        link = f"{address}?{urlencode([*list_request.parameters, ('offset', 0)])}"
        meta = {"limit": list_request.limit, "next": link, "offset": 0, "previous": None}
        return {"data": [], "meta": meta}
    page = read_page(view, list_request, address)
    found: list[dict[str, Any]] = []
    if page.block is not None:
        found = records(view, list_request.columns, page.block)
        for name in list_request.expand:
            _expand(view, resource.by_name[name], page.block, found)
    return spoil(view.scenario, resource.name, {"data": found, "meta": page.meta})


def one_record(view: View, resource: Resource, key: str, query: str = "") -> dict[str, Any]:
    """Return one record by its key, with the requested fields and expanded relations.

    Raises: Refusal (404) for a key that does not exist or that the caller may not see, or for
    an unknown field or relation.
    """
    columns, expand = read_shape(resource, query)
    column = resource.by_name.get(resource.key)
    if column is None or (resource.lags and resource.rows is None):
        raise not_found()
    block = all_of(
        view, [Condition(column, "exact", _read_key(column, key))], _rows(view, resource)
    )
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
    assert target.rows is not None
    key = target.by_name["router" if column.part else target.key]
    wanted = Condition(key, "in", sorted({value for value in ids.tolist() if value != NULL}))
    related = all_of(view, [wanted], target.rows(view))
    by_id: dict[int, dict[str, Any]] = {}
    if len(related):
        keys = np.asarray(key.read(view, related)).tolist()
        by_id = dict(zip(keys, records(view, target.shown, related), strict=True))
    for record, value in zip(found, ids.tolist(), strict=True):
        if column.name in record and value != NULL:
            record[column.name] = by_id.get(value)
