"""Which rows of an append are surely new, so their keys need not be looked up.

The edges of windows are read twice, and several accounts may list the same record, so an append
compares keys with those in the table. Most rows of a long load cannot be there yet. A row is surely
new if

- its time is outside the range that the table held before this run appended to it, and
- its key's hash differs from those of all rows that the run appended since, and of its batch.

Every other row is doubtful and compared exactly. A row that is wrongly doubtful costs time; a row
that is wrongly new would be stored twice. So whatever is not certain is doubtful: keys with a null
member, rows after the first `MOST_KEYS`, and every row of a table that another process has changed
since.

The range comes from DuckLake's statistics of the table. They grow with each insert, and shrink at
a rewrite only to what the remaining rows need, so they include every row of the newest snapshot
(observed with 1.5.5, which answers min and max from them).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fleetlake.endpoints.columns import Kind
from fleetlake.endpoints.model import Endpoint
from fleetlake.lake.connection import Lake
from fleetlake.lake.ducklake import time_range
from fleetlake.lake.loads import instant_of, ticks_at, ticks_of
from fleetlake.lake.table_changes import changed_tables

Hashes = npt.NDArray[np.uint64]

_WORD_BYTES = 8
_OFFSET_BYTES = 4
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(29)


def key_hashes(rows: pa.Table, names: Sequence[str]) -> Hashes:
    """Return a hash of these columns for each of the rows (one or more), from Arrow's buffers.

    Equal keys have equal hashes, whatever else their batch holds, and different keys rarely share
    one. Python's own `hash` of each value would take three times as long. The columns hold texts or
    64-bit integers. The hash of a row with a null means nothing.
    """
    hashes = np.zeros(rows.num_rows, np.uint64)
    for name in names:
        column = pa.concat_arrays(rows[name].chunks)
        hashes = _mixed(hashes, _text(column) if column.type == pa.string() else _whole(column))
    return hashes


def _mixed(hashes: Hashes, words: Hashes) -> Hashes:
    mixed = (hashes ^ words) * _FACTOR
    return mixed ^ (mixed >> _SHIFT)


def _whole(column: pa.Array) -> Hashes:
    return np.frombuffer(column.buffers()[1], np.uint64, len(column), column.offset * _WORD_BYTES)


def _text(column: pa.Array) -> Hashes:
    _, offsets, texts = column.buffers()
    ends = np.frombuffer(offsets, np.int32, len(column) + 1, column.offset * _OFFSET_BYTES)
    content = np.frombuffer(texts, np.uint8)
    lengths = np.diff(ends)
    different = np.unique(lengths)
    if len(different) == 1:
        [length] = different
        return _equally_long(content[ends[0] : ends[-1]].reshape(len(column), length))
    hashes = np.empty(len(column), np.uint64)
    for length in different:
        rows = np.flatnonzero(lengths == length)
        within = np.arange(length)
        hashes[rows] = _equally_long(content[ends[rows, np.newaxis] + within])
    return hashes


def _equally_long(texts: npt.NDArray[np.uint8]) -> Hashes:
    """Return the hashes of texts of one length, one a row, filled with zeros to whole words."""
    count, length = texts.shape
    words = -(-length // _WORD_BYTES)
    filled = np.zeros((count, words * _WORD_BYTES), np.uint8)
    filled[:, :length] = texts
    hashes = np.full(count, length, np.uint64)
    for word in filled.view(np.uint64).T:
        hashes = _mixed(hashes, word)
    return hashes


FEWEST_ROWS = 20_000
"""A smaller first batch of a table is searched for whole, which costs less up to this size."""

MOST_KEYS = 4_000_000
"""The hashes of this many keys take 32 MB."""

ANOTHER_SPELLING = timedelta(seconds=1)
"""How much a record's time may differ between responses: some are in whole seconds."""

MOST_RUNS = 300
"""A batch that its doubtful rows divide into more runs is searched for whole.

Each run takes 0.03 ms to cut out; one page has one or two.
"""

_SPELLING_TICKS = ANOTHER_SPELLING // timedelta(microseconds=1)

_HASHED = {Kind.ID, Kind.RELATION, Kind.INTEGER, Kind.TEXT, Kind.TIMEUUID}
"""Kinds of key members that `key_hashes` takes."""

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class _Table:
    """The range of times (microseconds, ends included) of a table's rows that are not hashed.

    It is None if all are hashed. `hashes` are sorted.
    """

    held: tuple[int, int] | None
    hashes: Hashes


@dataclass(frozen=True)
class Doubts:
    """Which rows of a batch are doubtful: they may be in the batch twice, or in the table.

    `bounds` are the first and the last time of those that may be in the table, None without any.
    """

    mask: Mask
    bounds: tuple[datetime, datetime] | None

    @property
    def runs(self) -> int:
        """The number of runs of neighbouring rows that are all new, or all doubtful."""
        return 1 + int(np.count_nonzero(np.diff(self.mask)))

    def divide(self, rows: pa.Table) -> tuple[pa.Table, pa.Table]:
        """Return the new and the doubtful rows of the batch, without copying any."""
        edges = (np.flatnonzero(np.diff(self.mask)) + 1).tolist()
        runs = [rows.slice(a, b - a) for a, b in pairwise([0, *edges, rows.num_rows])]
        first = int(self.mask[0])  # 1 if the first run is doubtful
        parts = runs[first::2], runs[1 - first :: 2]
        nothing = rows.schema.empty_table()
        new, doubtful = (pa.concat_tables([nothing, *part]) for part in parts)
        return new, doubtful


class KnownKeys:
    """What one run knows of the keys in the tables that it appends to.

    Around each commit: `begin`, then `doubts` within the transaction, and `note_commit` if it
    succeeded. A commit whose outcome is unknown is like one by another process.
    """

    def __init__(self) -> None:
        self._tables: dict[str, _Table | None] = {}  # None: no longer worth following
        self._base = 0  # the snapshot that the tables describe
        self._own = 0  # commits of this run since, to other tables
        self._draft: dict[str, _Table] = {}

    def begin(self) -> None:
        """Begin a commit."""
        self._draft = {}

    def note_commit(self) -> None:
        """Note that the commit succeeded; each makes one snapshot.

        The tables describe the snapshot after the one that their last batch was compared with. If
        it was another process's, this commit's comes later, and the table counts as changed.
        """
        if self._draft:
            self._base += 1
        else:
            self._own += 1
        self._tables |= self._draft

    def doubts(self, lake: Lake, endpoint: Endpoint, rows: pa.Table) -> Doubts | None:
        """Return which rows may be in the table already; None means any of them.

        The rows are to be appended in the open transaction.
        """
        table = self._table(lake, endpoint, rows.num_rows)
        if table is None:
            return None
        hashes = key_hashes(rows, endpoint.key)
        order = np.sort(hashes)
        at = np.searchsorted(table.hashes, order)
        self._draft[endpoint.name] = _Table(table.held, np.insert(table.hashes, at, order))
        may_be_held = np.isin(hashes, _known(order, at, table.hashes))
        times = ticks_of(rows[endpoint.event_time])
        if table.held:
            first, last = table.held
            may_be_held |= (times >= first - _SPELLING_TICKS) & (times <= last + _SPELLING_TICKS)
        twice = np.isin(hashes, order[1:][order[1:] == order[:-1]])
        held = times[may_be_held]
        doubts = Doubts(
            mask=may_be_held | twice | _has_null(endpoint, rows),
            bounds=(instant_of(held.min()), instant_of(held.max())) if held.size else None,
        )
        return doubts if doubts.runs <= MOST_RUNS else None

    def _table(self, lake: Lake, endpoint: Endpoint, rows: int) -> _Table | None:
        """Return what is known of a table, or None if it is not followed."""
        name = endpoint.name
        if not _is_hashed(endpoint) or (name not in self._tables and rows < FEWEST_ROWS):
            return None
        self._leave_changed(lake)
        if name not in self._tables:
            return _as_it_is(lake, endpoint)
        table = self._tables[name]
        if table and table.hashes.size + rows > MOST_KEYS:
            table = self._tables[name] = None
        return table

    def _leave_changed(self, lake: Lake) -> None:
        """Stop following tables that anybody else has changed since this run's last commit.

        Their range would then include most of what this run has yet to append.
        """
        snapshot = lake.number("select id from lake.current_snapshot()")
        if self._tables and snapshot != self._base + self._own:
            changed = changed_tables(lake, self._base, snapshot)
            for name in self._tables:
                if changed is None or f"raw.{name}" in changed:
                    self._tables[name] = None
        self._base, self._own = snapshot, 0


def _is_hashed(endpoint: Endpoint) -> bool:
    # A push may get its time only when it arrives, each time another.
    return endpoint.is_requested and all(endpoint.column(k).kind in _HASHED for k in endpoint.key)


def _known(order: Hashes, at: npt.NDArray[np.intp], known: Hashes) -> Hashes:
    """Return those of sorted hashes that are among the known; `at` is where each belongs."""
    within = at < known.size
    found: Hashes = order[within][known[at[within]] == order[within]]
    return found


def _has_null(endpoint: Endpoint, rows: pa.Table) -> Mask:
    """Return which rows have a null in their key: SQL finds it equal to none in the table."""
    mask = np.zeros(rows.num_rows, np.bool_)
    for name in endpoint.key:
        if rows[name].null_count:
            mask |= np.array([value is None for value in rows[name].to_pylist()])
    return mask


def _as_it_is(lake: Lake, endpoint: Endpoint) -> _Table | None:
    """Return a table with nothing hashed, or None if its range is unknown."""
    nothing = np.empty(0, np.uint64)
    if not lake.rows(f"select 1 from raw.{endpoint.name} limit 1"):
        return _Table(None, nothing)
    found = endpoint.event_time and time_range(lake, endpoint.name, endpoint.event_time)
    if not found:
        return None
    first, last = found
    return _Table((ticks_at(first), ticks_at(last)), nothing)
