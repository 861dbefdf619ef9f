"""What a run must know of the lake's small tables.

Each part is read when it is first needed, and again once the lake has moved to another snapshot.
Looking for a new snapshot costs 2 ms of CPU time, looking at the catalog's files 0.01 ms, reading a
small table 5 to 10 ms. A commit of the run itself leaves the parts that loads do not change.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeVar

from fleetlake.account import DEFAULT_PROFILE
from fleetlake.endpoints import ENDPOINTS, PUSHED
from fleetlake.endpoints.columns import Column
from fleetlake.endpoints.model import Endpoint
from fleetlake.lake.audit_trail import EventKind
from fleetlake.lake.connection import CommitMark, Lake
from fleetlake.lake.ducklake import UNUSED_TABLES
from fleetlake.lake.evolution.promotions import Promotion, promotions, retyped_kinds, widened
from fleetlake.lake.evolution.registry import added_columns
from fleetlake.lake.lateness import measured_lateness
from fleetlake.lake.locks import is_committing
from fleetlake.lake.retention_rules import kept_from
from fleetlake.lake.table_changes import last_changes
from fleetlake.lake.tombstones import Tombstones, read_tombstones
from fleetlake.lake.watermarks import (
    ReadRow,
    StreamMark,
    all_proven_intervals,
    all_reads,
    proven_intervals,
    stream_marks,
    unconfirmed_keys,
)
from fleetlake.planning.intervals import Interval

Part = TypeVar("Part")

Proven = Mapping[str, Sequence[Interval]]
"""Ranges by partition, oldest first."""

_NOTHING: Proven = {}


class _NotRead(Exception):
    """A part is not in memory."""


_CHANGED_BY_LOADS = {"meta.lateness", "meta.capabilities", "meta.events"}
_CHANGED_BY_LOADS |= {f"raw.{PUSHED.name}"}


class RunState:
    """What one account's run knows of a lake, by the table that it was read from.

    Call `renew` in each transaction before its first write, and `note_commit` after a commit of
    the run. Who changes another table than `_CHANGED_BY_LOADS` calls `forget`.
    """

    def __init__(self, lake: Lake, profile: str = DEFAULT_PROFILE) -> None:
        self.lake, self.profile = lake, profile
        self._parts: dict[str, Any] = {}
        self.snapshot: int | None = None
        self._own: int | None = None  # the snapshot that the run's last commit made
        self._unused: frozenset[str] | None = None
        self._forgotten: set[str] = set()  # in the open transaction
        self._mark: CommitMark | None = None  # of the catalog, before the snapshot was looked for
        self._may_read = True

    def renew(self) -> None:
        """Forget what may be outdated at the snapshot of the open transaction."""
        snapshot = self.lake.number("select id from lake.current_snapshot()")
        if snapshot != self.snapshot:
            lasting = self._parts.keys() - _CHANGED_BY_LOADS if snapshot == self._own else set()
            self._parts = {table: self._parts[table] for table in lasting}
            self.snapshot, self._unused = snapshot, None
        self._forgotten = set()

    @contextmanager
    def single_snapshot(self) -> Iterator[None]:
        """Read everything within the block from one snapshot, the newest one."""
        # A block within another one reads the older snapshot of that one.
        mark = None if self.lake.has_transaction else self.lake.commit_mark()
        # A commit changes the files before it can be seen, by as long as a slow disk takes.
        is_certain = mark is not None and not is_committing(self.lake.path)
        with self.lake.single_snapshot():
            self.renew()
            self._mark = mark if is_certain else None
            yield

    def _ask(self, question: Callable[[], Part]) -> Part:
        """Return what parts of one snapshot, the newest one, say.

        No transaction is begun if all of them are in memory and nothing was committed since.
        """
        mark = self.lake.commit_mark()
        if mark and mark == self._mark:
            self._may_read = False
            try:
                return question()
            except _NotRead:
                pass
            finally:
                self._may_read = True
        with self.single_snapshot():
            return question()

    def note_commit(self) -> int | None:
        """Note that the run has committed; return the snapshot if it follows the renewed one."""
        own = self.lake.number("select id from lake.last_committed_snapshot()")
        self._own = own if own == (self.snapshot or 0) + 1 else None
        return self._own

    def forget(self, table: str) -> None:
        """Note that the open transaction changes a table."""
        self._parts.pop(table, None)
        self._forgotten.add(table)

    def _part(self, table: str, read: Callable[[], Part], nothing: Any) -> Part:
        """Return a part, from memory if it was read; `nothing` if its table never had a row."""
        if table in self._forgotten:
            return read()
        if table not in self._parts:
            if not self._may_read:
                raise _NotRead
            if self._unused is None:
                self._unused = frozenset(self.lake.values(UNUSED_TABLES))
            self._parts[table] = nothing if table in self._unused else read()
        part: Part = self._parts[table]
        return part

    def _rows(self, table: str, sql: str, *parameters: str) -> list[tuple[Any, ...]]:
        return self._part(table, lambda: self.lake.rows(sql, [*parameters] or None), [])

    @property
    def marks(self) -> Mapping[str, StreamMark]:
        """The watermark of each stream of the account, by endpoint."""
        return self._all_marks.get(self.profile, {})

    @property
    def _all_marks(self) -> Mapping[str, Mapping[str, StreamMark]]:
        return self._part("meta.watermarks", lambda: stream_marks(self.lake), {})

    def is_read_by_others(self, endpoint: Endpoint) -> bool:
        """Return whether another account has ever loaded the endpoint into this lake."""
        others = (marks for name, marks in self._all_marks.items() if name != self.profile)
        return any(endpoint.name in marks for marks in others)

    def holds(self, endpoint: Endpoint, digest: str) -> bool:
        """Return whether the lake surely holds a list just as it was read, by its digest.

        It does if the last load read the same, and nothing has changed the table since. What is
        erased stays away from a list that was read again, so that counts, too.
        """
        return self._ask(partial(self._holds, endpoint, digest))

    def _holds(self, endpoint: Endpoint, digest: str) -> bool:
        mark = self.marks.get(endpoint.name)
        if not mark or not mark.held or mark.held.digest != digest:
            return False
        # Missing records may be back, and another account's may pass to this one with time.
        if self.unconfirmed.get(endpoint.name) or self.is_read_by_others(endpoint):
            return False
        held = [one.held.snapshot for one in self.marks.values() if one.held]
        changes = partial(last_changes, self.lake, min(held))
        known, last = self._part("changes", changes, (0, {}))
        newest = max(last.get(f"raw.{endpoint.name}", 0), last.get("meta.tombstones", 0))
        return max(newest, known) <= mark.held.snapshot <= (self.snapshot or 0)

    def watermark(self, endpoint: Endpoint) -> datetime | None:
        """Return the newest event time committed, or None before the first load."""
        mark = self.marks.get(endpoint.name)
        return mark.newest if mark else None

    def newest_watermark(self, endpoint: Endpoint) -> datetime | None:
        """Return the same at the newest snapshot."""
        return self._ask(partial(self.watermark, endpoint))

    @property
    def reads(self) -> Sequence[ReadRow]:
        """The last finished load of each stream and shard of the account."""
        return self._part("meta.reads", lambda: all_reads(self.lake, self.profile), [])

    def proven(self, endpoint: Endpoint) -> Proven:
        """Return the ranges proven complete by partition, oldest first."""
        nothing = dict.fromkeys(ENDPOINTS, _NOTHING)
        read = partial(all_proven_intervals, self.lake, self.profile)
        known = self._part("meta.intervals", lambda: nothing | read(), nothing)
        if endpoint.name not in known:
            known[endpoint.name] = proven_intervals(self.lake, self.profile, endpoint)
        return known[endpoint.name]

    def forget_proven(self, endpoint: Endpoint) -> None:
        """Note that the open transaction changes the proven ranges of an endpoint."""
        self._parts.get("meta.intervals", {}).pop(endpoint.name, None)

    @property
    def proven_ends(self) -> Sequence[tuple[str, datetime]]:
        """The end of the last proven range of each endpoint of the account."""
        proven = {name: self.proven(endpoint) for name, endpoint in ENDPOINTS.items()}
        return [
            (name, max(ranges[-1].end for ranges in of_stream.values()))
            for name, of_stream in proven.items()
            if of_stream
        ]

    def lateness(self, *, now: datetime) -> Mapping[str, timedelta]:
        """Return, by endpoint, the lateness that only one record in a thousand exceeds."""
        read = partial(measured_lateness, self.lake, self.profile, now=now)
        return self._part("meta.lateness", read, {})

    @property
    def kept_from(self) -> Mapping[str, datetime]:
        """The first instant that retention keeps, by endpoint."""
        return self._part("meta.retention", lambda: kept_from(self.lake), {})

    def events_kept_from(self, endpoint: Endpoint) -> datetime | None:
        """Return the first event time of a stream that its rule keeps; None without a rule."""
        return None if endpoint.event_time is None else self.kept_from.get(endpoint.name)

    @property
    def tombstones(self) -> Tombstones:
        """What was erased."""
        return self._part("meta.tombstones", lambda: read_tombstones(self.lake), Tombstones())

    @property
    def promotions(self) -> Sequence[Promotion]:
        """The members that became columns of this lake, oldest first."""
        return self._part("meta.promoted", lambda: promotions(self.lake), [])

    def widened(self, endpoint: Endpoint) -> Endpoint:
        """Return the endpoint with the promoted and the retyped columns of this lake."""
        return self._ask(partial(self._widened, endpoint))

    def _widened(self, endpoint: Endpoint) -> Endpoint:
        registered = [(name, column) for name, column, _ in self._added_columns]
        kinds = self._part("meta.retyped", lambda: retyped_kinds(self.lake), {})
        [wider] = widened([endpoint], self.promotions, registered, kinds)
        return wider

    @property
    def _added_columns(self) -> Sequence[tuple[str, Column, datetime | None]]:
        return self._part("meta.columns", lambda: added_columns(self.lake), [])

    def columns_new_to(self, endpoint: Endpoint) -> list[Column]:
        """Return the columns added to the lake since the account last loaded the endpoint."""
        added = [(c.field, at) for name, c, at in self._added_columns if name == endpoint.name]
        mark = self.marks.get(endpoint.name) if added else None
        new = {field for field, at in added if mark and at and at > mark.updated_at}
        return [column for column in endpoint.columns if column.field in new]

    @property
    def unconfirmed(self) -> Mapping[str, frozenset[str]]:
        """The keys of the records that are missing from their list, unconfirmed, by endpoint."""
        return self._part("meta.absent", lambda: unconfirmed_keys(self.lake, self.profile), {})

    def drifted(self, endpoint: Endpoint) -> set[str]:
        """Return the members without a column that an endpoint has sent."""
        found = self._rows("meta.schema_drift", "select endpoint, member from meta.schema_drift")
        return {member for name, member in found if name == endpoint.name}

    @property
    def has_pushes(self) -> bool:
        """Whether an alert was ever pushed."""
        table = f"raw.{PUSHED.name}"
        return bool(self._rows(table, f"select 1 from {table} limit 1"))

    @property
    def clock_state(self) -> str | None:
        """The last state of the clock that was recorded in the audit trail."""
        sql = (
            "select (details->>'state') as state from meta.events where kind = ? "
            "and account_profile = ? and (details->>'state') is not null "
            "order by rowid desc limit 1"
        )
        found = self._rows("meta.events", sql, EventKind.CLOCK, self.profile)
        return str(found[0][0]) if found else None

    @property
    def capabilities(self) -> Mapping[str, bool]:
        """Whether the account may read each endpoint, as far as that has changed."""
        sql = "select endpoint, is_available from meta.capabilities where account_profile = ?"
        return dict(self._rows("meta.capabilities", sql, self.profile))
