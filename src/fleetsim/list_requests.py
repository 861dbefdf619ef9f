"""Parsing of list requests: paging, filters, fields, expand. Unknown parameters are refused."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl

from fleetsim.conditions import Condition, parse_condition
from fleetsim.definition import Resource
from fleetsim.refusals import validation
from fleetsim.resource_columns import ResourceColumn

LONGEST_NUMBER: Final = 18
"""Maximum digits of a number that certainly fits 64 bits."""

DEFAULT_LIMIT: Final = 20
MAXIMUM_LIMIT: Final = 500
"""Service contract, Limits: a larger `limit` gives 500 rows."""


@dataclass(frozen=True, kw_only=True)
class ListRequest:
    """The parsed parameters of a list request; `parameters` are kept for the `next` link."""

    resource: Resource
    parameters: tuple[tuple[str, str], ...]
    conditions: tuple[Condition, ...]
    limit: int
    offset: int
    order_by: str
    columns: tuple[ResourceColumn, ...]
    expand: tuple[str, ...]

    def bounds(self, name: str) -> list[Condition]:
        """Return the conditions on one column."""
        return [condition for condition in self.conditions if condition.column.name == name]


def read_list_request(resource: Resource, query: str) -> ListRequest:
    """Return the list request of a query string.

    Raises: Refusal for a missing required filter (409), an unknown parameter, or a bad value.
    """
    parameters = tuple(parse_qsl(query, keep_blank_values=True))
    given = dict(parameters)
    _require_filter(resource, given)
    special = {"limit", "fields", "expand", "order_by", "format"}
    if resource.rows is not None:
        special.add("offset")
    filters = [(name, text) for name, text in parameters if name not in special]
    return ListRequest(
        resource=resource,
        parameters=parameters,
        conditions=tuple(parse_condition(resource, name, text) for name, text in filters),
        limit=min(_whole_number(given, "limit", DEFAULT_LIMIT, least=1), MAXIMUM_LIMIT),
        offset=_whole_number(given, "offset", 0, least=0),
        order_by=_order(resource, given.get("order_by", "")),
        columns=_fields(resource, given.get("fields", "")),
        expand=_expand(resource, given.get("expand", "")),
    )


def read_shape(
    resource: Resource, query: str
) -> tuple[tuple[ResourceColumn, ...], tuple[str, ...]]:
    """Return the requested columns, and the relations to show as objects, of a read of one record.

    Raises: Refusal for an unknown field or relation.
    """
    given = dict(parse_qsl(query, keep_blank_values=True))
    return _fields(resource, given.get("fields", "")), _expand(resource, given.get("expand", ""))


def _require_filter(resource: Resource, given: dict[str, str]) -> None:
    """Refuse a request without the filter its endpoint requires."""
    if resource.one_of and not any(given.get(name) for name in resource.one_of):
        raise validation(resource.one_of[0], "this filter is required")


def _whole_number(given: dict[str, str], name: str, default: int, *, least: int) -> int:
    """Return a paging number of at least `least`."""
    text = given.get(name)
    if text is None:
        return default
    if not text.isascii() or not text.isdigit() or len(text) > LONGEST_NUMBER or int(text) < least:
        raise validation(name, f"must be an integer of at least {least}", status=400)
    return int(text)


def _order(resource: Resource, text: str) -> str:
    """Return the column to order by, with `-` for descending, or "" for no order."""
    if text and text.removeprefix("-") not in resource.order_by:
        raise validation("order_by", f"cannot order by {text!r}")
    return text


def _fields(resource: Resource, text: str) -> tuple[ResourceColumn, ...]:
    """Return the requested columns in the record's own order; all if none is named."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        return resource.shown
    known = {column.name for column in resource.shown}
    for name in names:
        if name not in known:
            raise validation(name, "no such field")
    return tuple(column for column in resource.shown if column.name in names)


def _expand(resource: Resource, text: str) -> tuple[str, ...]:
    """Return the relations to show as objects."""
    names: Sequence[str] = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in resource.expands:
            raise validation("expand", f"cannot expand {name!r}")
    return tuple(names)
