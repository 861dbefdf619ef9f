"""Plan what a load of a stream reads, from the lake alone; loads and forecasts use the plan."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import pyarrow as pa

from fleetlake.endpoints import ENDPOINTS
from fleetlake.endpoints.model import Endpoint
from fleetlake.lake.connection import Lake
from fleetlake.lake.current import changing_since, fan_out_ids, last_moves
from fleetlake.lake.run_state import RunState
from fleetlake.lake.watermarks import WHOLE_STREAM, last_read, proven_intervals
from fleetlake.loading.run import Scope
from fleetlake.planning.coverage import (
    LIST_LIFE,
    Overlap,
    expired_ranges,
    needs_request,
    overlap,
    still_to_read,
    sweep_from,
)
from fleetlake.planning.intervals import BEGINNING, Interval

Proven = Mapping[str, Sequence[Interval]]
"""Proven ranges by partition."""


@dataclass(frozen=True, kw_only=True)
class LoadPlan:
    """The ranges to read by partition, and how they overlap with what was read before.

    `expired` holds the wanted ranges older than the service's retention, by partition.
    `swept_at` is the time of the stream's last sweep once this load is complete; None if the load
    does not measure lateness. Nothing is proven for `unconfirmed` ids. `skipped` counts the ids
    that are not requested because they have not changed. `has_shown` means that the stream has
    returned records before. Otherwise an empty response proves nothing: the service may be failing
    silently.
    """

    wanted: Sequence[tuple[int | None, Interval]]
    expired: Mapping[str, Sequence[Interval]]
    unconfirmed: frozenset[str]
    skipped: int
    has_shown: bool
    overlap: Overlap | None = None
    swept_at: datetime | None = None
    wanted_from: datetime = BEGINNING
    is_sweep: bool = False


@dataclass(frozen=True, kw_only=True)
class BulkList:
    """The list that says which ids of a fan-out changed, as read in this run."""

    is_loaded: bool
    ids: pa.ChunkedArray | None


def plan_load(
    state: RunState,
    endpoint: Endpoint,
    *,
    now: datetime,
    scope: Scope,
    bulk: BulkList | None = None,
) -> LoadPlan:
    """Return the plan of a load of an endpoint with event times; `now` is UTC."""
    with state.single_snapshot():
        return _Planner(state, endpoint, now, scope).plan(bulk)


@dataclass(frozen=True)
class _Planner:
    state: RunState
    endpoint: Endpoint
    now: datetime
    scope: Scope

    @property
    def lake(self) -> Lake:
        return self.state.lake

    @property
    def profile(self) -> str:
        return self.state.profile

    def plan(self, bulk: BulkList | None) -> LoadPlan:
        endpoint, only = self.endpoint, self.scope.only
        proven = self._proven()
        last = last_read(self.state.reads, endpoint, str(self.scope.shard))
        swept_at = last.swept_at if last else self.now
        wanted_from = last.wanted_from if last else BEGINNING
        kept_from = self.state.events_kept_from(endpoint) or BEGINNING
        swept_from = sweep_from(swept_at, proven.values(), now=self.now) if only is None else None
        is_sweep = swept_from is not None
        ids = self._ids()
        asked = ids if is_sweep or only is not None else self._moved(ids, proven, bulk)
        since = max(self.scope.since or wanted_from, kept_from)
        wanted = self._wanted(asked, proven, since=since, swept_from=swept_from)
        plan = LoadPlan(
            wanted=wanted,
            expired=self._expired(proven, wanted),
            unconfirmed=self._unconfirmed(),
            skipped=len(ids) - len(asked),
            has_shown=self._has_shown(),
        )
        if only is not None:
            # A chosen range may never have been read before, so it measures no lateness.
            return plan
        unsettled = last.unsettled if last else None
        return replace(
            plan,
            overlap=overlap(proven, unsettled, swept_from=swept_from) if unsettled else None,
            swept_at=self.now if is_sweep else swept_at,
            wanted_from=wanted_from,
            is_sweep=is_sweep,
        )

    def _proven(self) -> Proven:
        proven = proven_intervals(self.lake, self.profile, self.endpoint)
        if not self.endpoint.is_divisible:
            return proven
        return {id_: proven[id_] for id_ in proven if self.scope.shard.has(id_)}

    def _ids(self) -> Sequence[int | None]:
        """Return the shard's ids; without a fan-out, one walk without an id."""
        if self.endpoint.fan_out is None:
            return [None]
        ids = fan_out_ids(self.lake, self.profile, self.endpoint)
        return [one for one in ids if self.scope.shard.has(one)]

    def _moved(
        self, ids: Sequence[int | None], proven: Proven, bulk: BulkList | None
    ) -> Sequence[int | None]:
        """Return the ids that may have new records: all ids if there is no fresh bulk list."""
        moved = self.endpoint.fan_out.moved if self.endpoint.fan_out else None
        if moved is None or not self._is_fresh(ENDPOINTS[moved.endpoint], bulk):
            return ids
        moved_at = last_moves(self.lake, moved)
        # For an id that is no longer listed, the lake has only an outdated time of change.
        listed: Collection[Any] = moved_at.keys()
        if bulk is not None and bulk.ids is not None:
            listed = frozenset(bulk.ids.to_pylist())
        return [
            one
            for one in ids
            if one not in listed
            or needs_request(proven.get(str(one), []), moved_at=moved_at.get(one))
        ]

    def _is_fresh(self, endpoint: Endpoint, bulk: BulkList | None) -> bool:
        """Return whether the bulk list was loaded in this run or, for a shard, shortly before."""
        if bulk is not None and bulk.is_loaded:
            return True
        if self.scope.shard.is_whole:
            return False
        read_at = self.state.watermark(endpoint)
        return read_at is not None and self.now - read_at <= LIST_LIFE

    def _wanted(
        self,
        asked: Sequence[int | None],
        proven: Proven,
        *,
        since: datetime,
        swept_from: datetime | None,
    ) -> list[tuple[int | None, Interval]]:
        changing = changing_since(self.lake, self.profile, self.endpoint)
        again_from = min(filter(None, (changing, swept_from)), default=None)
        return [
            (partition, interval)
            for partition in asked
            for interval in still_to_read(
                proven.get(_key(partition), []),
                now=self.now,
                since=since,
                again_from=again_from,
                only=self.scope.only,
            )
        ]

    def _expired(
        self, proven: Proven, wanted: Sequence[tuple[int | None, Interval]]
    ) -> dict[str, list[Interval]]:
        """Return by partition the wanted ranges that are older than the service's retention."""
        expired: dict[str, list[Interval]] = {}
        retention = self.endpoint.retention
        if retention is None:
            return expired
        for partition, interval in wanted:
            key = _key(partition)
            for old in expired_ranges(proven.get(key, []), now=self.now, retention=retention):
                start, end = max(old.start, interval.start), min(old.end, interval.end)
                if start < end:
                    expired.setdefault(key, []).append(Interval(start, end))
        return expired

    def _has_shown(self) -> bool:
        """Return whether the stream ever returned a record; many ids of a fan-out never do."""
        if self.endpoint.fan_out is not None:
            return True
        return self.state.watermark(self.endpoint) is not None

    def _unconfirmed(self) -> frozenset[str]:
        """Return the ids that this account may not see now; nothing is proven for them."""
        if self.endpoint.fan_out is None:
            return frozenset()
        keys = self.state.unconfirmed.get(self.endpoint.fan_out.source, ())
        return frozenset(str(json.loads(key)[0]) for key in keys)


def _key(partition: int | None) -> str:
    return WHOLE_STREAM if partition is None else str(partition)
