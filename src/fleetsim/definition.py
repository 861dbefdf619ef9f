"""The definition of one list: a resource of v2, or a collection of v3."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fleetsim.blocks import Block
from fleetsim.resource_columns import ResourceColumn
from fleetsim.units import NEVER, Ints
from fleetsim.view import View

Rows = Callable[[View], Block]
"""Returns a snapshot resource's rows in ascending id order, with row numbers in `row`."""

MAXIMUM_LIMIT = 500
"""Service contract, Limits: a larger `limit` gives 500 rows."""

_LARGEST_BLOCK = 20_000


@dataclass(frozen=True, kw_only=True)
class SeriesRead:
    """Which records of a time series are read: those created in [since, until), in microseconds.

    `devices` are row numbers; None means all that the caller may see. `want` is a hint for the size
    of a block: the number of records that the caller wants.
    """

    devices: Ints | None = None
    since: int = 0
    until: int = NEVER
    newest_first: bool = False
    want: int = 0

    def periods(self, view: View, devices: Ints, period: int) -> Iterator[Ints]:
        """Yield runs of periods, each with about as many rows of these devices as a page."""
        first = max(self.since, view.world.started_at) // period
        last = min(self.until - 1, view.now) // period + 1
        size = max(min(self.want * 5 // 4, _LARGEST_BLOCK) // len(devices), 1)
        if self.newest_first:
            for end in range(last, first, -size):
                yield np.arange(max(end - size, first), end)
            return
        for start in range(first, last, size):
            yield np.arange(start, min(start + size, last))


Series = Callable[[View, SeriesRead], Iterator[Block]]
"""Yields a time series in blocks, each ascending by (time, tail).

The blocks together hold every record that is read, the newest block first if requested.
"""


def everything(_view: View, block: Block) -> Block:
    """Return all rows: the default of `Resource.keep`."""
    return block


@dataclass(frozen=True, kw_only=True)
class Resource:
    """One endpoint.

    At most one of `rows` (a snapshot, paged by offset or id) and `series` (paged by cursor) is
    set; with neither, the resource cannot be listed. `key` is the column that identifies a single
    record; `cursor` is the column of the `next` cursor. `keep` drops rows of a series that the
    caller may not see. `lags` is true if new records become visible with a delay. One of the
    parameters in `one_of` is required. `order_by` names the columns that a caller may sort by.
    `device` names the filter that selects devices before records are generated. `owner` names a
    column that the truth adds as `_device`. `largest_page` is the largest `limit`.
    """

    name: str
    columns: tuple[ResourceColumn, ...]
    rows: Rows | None = None
    series: Series | None = None
    keep: Callable[[View, Block], Block] = everything
    lags: bool = True
    key: str = "id"
    id_paging: bool = False
    cursor: str = "created_at_timeuuid"
    ascending: bool = False
    one_of: tuple[str, ...] = ()
    device: str = ""
    per_device: bool = False
    order_by: tuple[str, ...] = ()
    expands: tuple[str, ...] = ()
    unlimited_in: bool = False
    owner: str = ""
    largest_page: int = MAXIMUM_LIMIT

    @property
    def is_listed(self) -> bool:
        """Return whether there are records of this resource to list."""
        return self.rows is not None or self.series is not None

    def snapshot(self, view: View) -> Block:
        """Return the rows of a snapshot resource."""
        assert self.rows is not None
        return self.rows(view)

    @cached_property
    def by_name(self) -> dict[str, ResourceColumn]:
        """Return the columns by name."""
        return {column.name: column for column in self.columns}

    @cached_property
    def shown(self) -> tuple[ResourceColumn, ...]:
        """Return the columns that are part of a record."""
        return tuple(column for column in self.columns if not column.hidden)


@dataclass(frozen=True)
class Collection:
    """One v3 list: its ids in order, a reader of items, and the fields that can be filtered.

    `hidden` reads items that only `filter[id]` finds. `is_counted` lists say how many items and
    pages they have (observed of some). `required` is the field of a required filter.
    """

    ids: Callable[[View], Sequence[int]]
    items: Callable[[View, Sequence[int]], list[dict[str, Any]]]
    filters: tuple[str, ...] = ()
    hidden: Callable[[View], list[dict[str, Any]]] | None = None
    is_counted: bool = False
    required: str = ""
    largest_page: int = 50

    def everything(self, view: View) -> list[dict[str, Any]]:
        """Return every item."""
        return self.items(view, self.ids(view))

    def numbered(self, view: View, *, with_hidden: bool) -> list[tuple[int, dict[str, Any]]]:
        """Return every item with its number; hidden ones come last."""
        ids = self.ids(view)
        found = list(zip(ids, self.items(view, ids), strict=True))
        if with_hidden and self.hidden:
            found += enumerate(self.hidden(view), max(ids, default=0) + 1)
        return found


@dataclass(frozen=True)
class Lists:
    """Served lists by path, of v3 without its areas, and all lists by the names of raw tables."""

    resources: Mapping[str, Resource]
    collections: Mapping[str, Collection]
    by_name: Mapping[str, Resource | Collection]
