"""Pages as Arrow: the endpoint's declared columns, typed, plus `_extra`.

Ids are 64-bit integers, times are UTC microseconds, and JSON stays the service's text. Nothing
here knows where a page comes from or where its rows go.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from fleetlake.decoding.records import PAGES, Decoded, OddRecord, RejectedRecord, reader_of
from fleetlake.decoding.timeuuid import embedded_time
from fleetlake.endpoints.columns import Column, Kind
from fleetlake.endpoints.model import Endpoint

EXTRA = "_extra"
"""Name of the column that holds all other members, as one JSON object."""

_INSTANT = pa.timestamp("us", tz="UTC")
_EARLIEST, _LATEST = -62_135_510_400_000_000, 253_402_214_400_000_000
"""The second day of year 1 and the last day of year 9999, in microseconds since 1970."""

TIMES_BY_PYTHON = 5_000
"""So many times are read by Python: importing the functions of Arrow's cast takes 0.05 s.

A load with nothing new reads fewer. Arrow reads one ten times as quickly.
"""

_ISO_TIME = re.compile(
    r"(?!0000)[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,6})?"
    r"(Z|[+-][0-9]{2}:[0-5][0-9])"
)
"""The form in which Arrow and Python read the same instant.

Only Arrow has a year 0, and only Python reads an offset such as +00:60.
"""

_JSON = pa.json_()
_ARROW_TYPES = {
    Kind.ID: pa.int64(),
    Kind.RELATION: pa.int64(),
    Kind.INTEGER: pa.int64(),
    Kind.REAL: pa.float64(),
    Kind.FLAG: pa.bool_(),
    Kind.TEXT: pa.string(),
    Kind.TIME: _INSTANT,
    Kind.EPOCH_S: _INSTANT,
    Kind.EPOCH_MS: _INSTANT,
    Kind.TIMEUUID: pa.string(),
    Kind.IDS: _JSON,
    Kind.JSON: _JSON,
}


@dataclass(frozen=True, slots=True)
class Page:
    """One response of a list: its records as rows, in the service's order.

    `count` is the number of records received: rows plus rejected records. `next` is the query of
    the link to the next page, or None on the last page.
    """

    rows: pa.RecordBatch
    rejects: tuple[RejectedRecord, ...]
    count: int
    limit: int
    next: Mapping[str, str] | None

    @property
    def is_last(self) -> bool:
        """True if the service links to no further page."""
        return self.next is None

    def value(self, column: str, row: int) -> Any:
        """Return the column's value in a row (-1 is the last), or None when there is no row."""
        return self.rows.column(column)[row].as_py() if self.rows.num_rows else None


def read_page(endpoint: Endpoint, body: bytes) -> Page:
    """Return the page in the body of a list response.

    Raises: PageUnreadable if the body is not a list response. It is never read as an empty page.
    """
    return reader_of(endpoint).read(body, lambda decoded: _page(endpoint, decoded))


@cache
def schema_of(endpoint: Endpoint) -> pa.Schema:
    """Return the Arrow schema of an endpoint's rows."""
    fields = [pa.field(c.name, _ARROW_TYPES[c.kind]) for c in endpoint.columns]
    return pa.schema([*fields, pa.field(EXTRA, _JSON)])


def stamp(endpoint: Endpoint, page: Page, partition: int | str) -> Page:
    """Return the page with the requested id added to each record, if its endpoint needs that."""
    if not endpoint.fan_out or not endpoint.fan_out.is_stamped:
        return page
    index = page.rows.schema.get_field_index(endpoint.fan_out.partition)
    ids = pa.array([partition] * page.rows.num_rows, pa.int64())
    rows = page.rows.set_column(index, page.rows.schema.field(index), ids)
    rejects = tuple(RejectedRecord(m.reason, m.raw, str(partition)) for m in page.rejects)
    return Page(rows, rejects, page.count, page.limit, page.next)


def event_at(endpoint: Endpoint, page: Page, row: int) -> datetime | None:
    """Return the instant of a row that the endpoint's window filters by, or None without a row.

    For a version-1 UUID this is its embedded time: `created_at` may be in whole seconds.
    """
    if endpoint.window_column is None:
        return None
    value = page.value(endpoint.window_column, row)
    if isinstance(value, str):
        return embedded_time(value)
    moment: datetime | None = value
    return moment


_SET_BY_SERVICE = ("updated_at", "update_ts")
"""Times that the service itself sets, not a device or a person."""


def newest_service_time(endpoint: Endpoint, page: Page) -> datetime | None:
    """Return the newest time that the service itself put on a page's records, or None."""
    if endpoint.window_column is not None:
        # Pages are ordered by time, ascending or descending.
        moments = [event_at(endpoint, page, 0), event_at(endpoint, page, -1)]
    else:
        names = [name for name in _SET_BY_SERVICE if name in page.rows.schema.names]
        moments = [moment for name in names for moment in page.rows.column(name).to_pylist()]
    return max((moment for moment in moments if moment is not None), default=None)


def _page(endpoint: Endpoint, decoded: Decoded) -> Page:
    arrays = [array_of(column, decoded.values[column.name]) for column in endpoint.columns]
    kept = decoded.count - len(decoded.rejects)
    extra = [decoded.extra.get(row) for row in range(kept)] if decoded.extra else [None] * kept
    arrays.append(_json_array(extra))
    rows = pa.RecordBatch.from_arrays(arrays, schema=schema_of(endpoint))
    if decoded.reader == "fast":
        _refuse_far_times(endpoint, rows)
    PAGES[decoded.reader] += 1
    return Page(rows, decoded.rejects, decoded.count, decoded.limit, decoded.next)


def _refuse_far_times(endpoint: Endpoint, rows: pa.RecordBatch) -> None:
    """Raise OddRecord for a time that fits Arrow but not Python."""
    for column in endpoint.columns:
        if column.kind is Kind.TIME and rows.num_rows:
            ticks = np.frombuffer(rows.column(column.name).buffers()[1], np.int64, rows.num_rows)
            if ticks.min() < _EARLIEST or ticks.max() > _LATEST:
                raise OddRecord


def array_of(column: Column, values: Sequence[Any]) -> pa.Array:
    """Return values of the lenient reader as an array of the column's type."""
    if _ARROW_TYPES[column.kind] is _INSTANT:
        return _instants(values)
    if column.kind in {Kind.IDS, Kind.JSON}:
        return _json_array(values)
    return pa.array(values, _ARROW_TYPES[column.kind])


class Instants:
    """Reads ISO times: the first ones with Python, the others with Arrow."""

    def __init__(self, *, by_python: int) -> None:
        self._left = by_python

    def of(self, texts: Sequence[str | None]) -> pa.Array:
        """Return ISO times as instants. Raises: ValueError for a text that is none."""
        self._left -= len(texts)
        if self._left >= 0 and all(t is None or _ISO_TIME.fullmatch(t) for t in texts):
            return pa.array([t and datetime.fromisoformat(t) for t in texts], _INSTANT)
        return pa.array(texts, pa.string()).cast(_INSTANT)


_instants = Instants(by_python=TIMES_BY_PYTHON).of


def _json_array(texts: Sequence[str | None]) -> pa.Array:
    return pa.ExtensionArray.from_storage(_JSON, pa.array(texts, pa.string()))
