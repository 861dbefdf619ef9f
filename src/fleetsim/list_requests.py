"""Parsing of list requests: paging, fields, expand, and filters, which select matching rows.

Unknown parameters are refused.
"""

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qsl

import numpy as np

from fleetsim import stamps, timeuuids
from fleetsim.blocks import Block
from fleetsim.definition import Resource
from fleetsim.refusals import validation
from fleetsim.resource_columns import ColumnKind, ResourceColumn
from fleetsim.units import NULL, Flags
from fleetsim.view import View

VALUES_PER_FILTER: Final = 100
"""Service contract, Limits; alerts is exempt."""

_COMPARE: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "exact": operator.eq,
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
}
_OPERATORS: Final = frozenset({*_COMPARE, "in", "isnull"})
_INTEGER: Final = re.compile(r"-?[0-9]{1,19}", re.ASCII)
_TRUTHS: Final = {"true": True, "1": True, "false": False, "0": False}


@dataclass(frozen=True)
class Condition:
    """One filter: `value` is parsed, a list for `in`, a flag for `isnull`."""

    column: ResourceColumn
    op: str
    value: Any


def parse_condition(resource: Resource, parameter: str, text: str) -> Condition:
    """Return the condition of one query parameter.

    Raises: Refusal with the validation body for an unknown field, an operator the field does
    not take (409), or a value that cannot be read (400).
    """
    column, op = _find_column(resource, parameter)
    if op not in column.ops:
        raise validation(parameter, "no such filter")
    if op == "isnull":
        return Condition(column, op, _read(parameter, _TRUTHS.__getitem__, text.lower()))
    if op != "in":
        return Condition(column, op, _read_value(parameter, column, text))
    parts = [part for part in text.split(",") if part]
    if len(parts) > VALUES_PER_FILTER and not resource.unlimited_in:
        raise validation(parameter, f"no more than {VALUES_PER_FILTER} values are allowed")
    return Condition(column, op, [_read_value(parameter, column, part) for part in parts])


def _find_column(resource: Resource, parameter: str) -> tuple[ResourceColumn, str]:
    """Return the column and operator of a parameter; a column's name may contain `__`."""
    stem, _, suffix = parameter.rpartition("__")
    name, op = (stem, suffix) if suffix in _OPERATORS and stem else (parameter, "exact")
    related = resource.by_name.get(name.removesuffix(".id"))
    if related and related.kind is ColumnKind.RELATION:  # `router.id` is `router`
        return related, op
    if name not in resource.by_name:
        raise validation(parameter, "no such field")
    return resource.by_name[name], op


def _read_value(parameter: str, column: ResourceColumn, text: str) -> Any:
    """Return a filter value as the column's raw type."""
    match column.kind:
        case ColumnKind.ID | ColumnKind.RELATION | ColumnKind.INTEGER | ColumnKind.NUMERIC_ID:
            return _read(parameter, _read_id, text)
        case ColumnKind.REAL:
            return _read(parameter, float, text)
        case ColumnKind.FLAG:
            return _read(parameter, _TRUTHS.__getitem__, text.lower())
        case ColumnKind.TIME:
            return _read(parameter, stamps.parse, text)
        case ColumnKind.UUID:
            return _read(parameter, timeuuids.parse, text)
        case _:
            return text


def _read_id(text: str) -> int:
    """Return an id; a relation may also be given by its URL."""
    digits = text.rstrip("/").rpartition("/")[2]
    if _INTEGER.fullmatch(digits) is None or abs(int(digits)) >= 2**62:
        raise ValueError(text)
    return int(digits)


def _read(parameter: str, parse: Callable[[str], Any], text: str) -> Any:
    try:
        return parse(text)
    except (ValueError, KeyError):
        raise validation(parameter, f"invalid value {text!r}", status=400) from None


def mask(view: View, condition: Condition, block: Block) -> Flags:
    """Return which rows of a block meet a condition; null meets only `isnull`."""
    if condition.column.kind is ColumnKind.UUID:
        return _uuid_mask(condition, block)
    if condition.column.kind is ColumnKind.TEXT and condition.op in ("exact", "in"):
        return _text_mask(view, condition, block)
    raw = np.asarray(condition.column.read(view, block))
    if condition.op == "isnull":
        return np.asarray(_is_null(raw) == condition.value)
    if condition.op == "in":
        return np.isin(raw, np.array(condition.value, dtype=raw.dtype)) & ~_is_null(raw)
    return np.asarray(_COMPARE[condition.op](raw, condition.value)) & ~_is_null(raw)


def _text_mask(view: View, condition: Condition, block: Block) -> Flags:
    """Compare texts as Python objects: a NumPy text array would cut values to its own width.

    It would also ignore NUL characters at the end of a text.
    """
    raw = condition.column.read(view, block)
    texts = raw.tolist() if isinstance(raw, np.ndarray) else raw
    wanted = set(condition.value) if condition.op == "in" else {condition.value}
    return np.array([text in wanted for text in texts], dtype=bool)


def _is_null(raw: Any) -> Flags:
    if raw.dtype == object:
        return np.array([value is None for value in raw], dtype=bool)
    if raw.dtype == np.int64:
        return np.asarray(raw == NULL)
    if raw.dtype == np.float64:
        return np.asarray(np.isnan(raw))
    return np.zeros(raw.shape, dtype=bool)


def _uuid_mask(condition: Condition, block: Block) -> Flags:
    """Compare time-based uuids by (time, signed bytes)."""
    ticks = timeuuids.ticks_of(block["time"])
    keys = timeuuids.order_key(block["tail"])
    if condition.op == "in":
        wanted = set(condition.value)
        return np.array(
            [pair in wanted for pair in zip(ticks.tolist(), keys.tolist(), strict=True)], bool
        )
    bound_ticks, bound_key = condition.value
    compare = _COMPARE[condition.op]
    tie = compare(keys, np.uint64(bound_key)) & (ticks == bound_ticks)
    if condition.op == "exact":
        return np.asarray(tie)
    return np.asarray(compare(ticks, bound_ticks) & (ticks != bound_ticks) | tie)


def all_of(view: View, conditions: Sequence[Condition], block: Block) -> Block:
    """Return the rows of a block that meet every condition."""
    for condition in conditions:
        if len(block) == 0:
            break
        block = block.take(np.flatnonzero(mask(view, condition, block)))
    return block


LONGEST_NUMBER: Final = 18
"""Maximum digits of a number that certainly fits 64 bits."""

DEFAULT_LIMIT: Final = 20


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
        limit=min(_whole_number(given, "limit", DEFAULT_LIMIT, least=1), resource.largest_page),
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
