"""A resource: the definition of one v2 endpoint. No other code names an endpoint."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fleetsim.blocks import Block
from fleetsim.resource_columns import ResourceColumn
from fleetsim.units import NEVER, Ints
from fleetsim.view import View

Rows = Callable[[View], Block]
"""Returns a snapshot resource's rows in ascending id order, with row numbers in `row`."""

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
    `device` names the filter that selects devices before records are generated.
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

    @property
    def is_listed(self) -> bool:
        """Return whether there are records of this resource to list."""
        return self.rows is not None or self.series is not None

    @cached_property
    def by_name(self) -> dict[str, ResourceColumn]:
        """Return the columns by name."""
        return {column.name: column for column in self.columns}

    @cached_property
    def shown(self) -> tuple[ResourceColumn, ...]:
        """Return the columns that are part of a record."""
        return tuple(column for column in self.columns if not column.hidden)
