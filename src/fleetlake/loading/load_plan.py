"""Plan what a load of a stream reads, from the lake alone; loads and forecasts use the plan."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa

from fleetlake.endpoints import ENDPOINTS
from fleetlake.endpoints.model import Endpoint
from fleetlake.lake.current import (
    changing_since,
    fan_out_ids,
    group_names,
    last_events,
    last_moves,
    records_by_id,
)
from fleetlake.lake.run_state import Proven, RunState
from fleetlake.lake.watermarks import WHOLE_STREAM, LastRead, last_read
from fleetlake.loading.run import Scope
from fleetlake.planning.coverage import (
    LIST_LIFE,
    SETTLE,
    SWEEP,
    Overlap,
    expired_ranges,
    overlap,
    still_to_read,
    sweep_from,
)
from fleetlake.planning.freshness import MEASURED, RATE_PERIOD, Id, Signs, Turns
from fleetlake.planning.intervals import BEGINNING, Interval

_NONE = timedelta(0)


@dataclass(frozen=True, kw_only=True)
class LoadPlan:
    """The ranges to read by partition, and how they overlap with what was read before.

    `expired` holds the wanted ranges older than the service's retention, by partition.
    Once this load is complete, every sweep due by `swept_at` has been made; None if the load does
    not measure lateness. Nothing is proven for `unconfirmed` ids. `skipped` counts the ids that
    are not requested now. `has_shown` means that the stream has
    returned records before. Otherwise an empty response proves nothing: the service may be failing
    silently.
    """

    wanted: Sequence[tuple[Id, Interval]]
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

    def plan(self, bulk: BulkList | None) -> LoadPlan:
        endpoint, only = self.endpoint, self.scope.only
        proven = self._proven()
        last = last_read(self.state.reads, endpoint, str(self.scope.shard))
        wanted_from = last.wanted_from if last else BEGINNING
        kept_from = self.state.events_kept_from(endpoint) or BEGINNING
        since = max(self.scope.since or wanted_from, kept_from)
        ids = self._ids()
        swept_at = last.swept_at if last else self.now
        swept_from = sweep_from(swept_at, proven.values())
        asked, swept = ids, frozenset[Id]()
        if only is None:
            turns = Turns(self.scope.freshness.get(endpoint.name, _NONE), self._of_groups())
            sweeps = turns.last_sweeps(ids, self.now)
            swept = frozenset(one for one in ids if swept_at < sweeps[one])
            signs = replace(self._signs(ids, turns, bulk, last), since=since, swept=swept)
            asked = [one for one in ids if signs.ask_for(one, proven.get(_key(one), ()))]
        wanted = self._wanted(asked, proven, since=since, swept=swept, swept_from=swept_from)
        plan = LoadPlan(
            wanted=wanted,
            expired=self._expired(proven, wanted),
            unconfirmed=self._unconfirmed(),
            skipped=len(ids) - len(asked),
            # Many ids of a fan-out never return a record.
            has_shown=bool(endpoint.fan_out) or self.state.watermark(endpoint) is not None,
        )
        if only is not None:
            # A chosen range may never have been read before, so it measures no lateness.
            return plan
        unsettled = last.unsettled if last else None
        again = (
            overlap(proven, unsettled, swept={*map(_key, swept)}, swept_from=swept_from)
            if unsettled
            else None
        )
        return replace(
            plan, overlap=again, swept_at=self.now, wanted_from=wanted_from, is_sweep=bool(swept)
        )

    def _proven(self) -> Proven:
        proven = self.state.proven(self.endpoint)
        if not self.endpoint.is_divisible:
            return proven
        return {id_: proven[id_] for id_ in proven if self.scope.shard.has(id_)}

    def _ids(self) -> Sequence[Id]:
        """Return the shard's ids. Without a fan-out, there is one walk without an id."""
        if self.endpoint.fan_out is None:
            return [None]
        ids = fan_out_ids(self.state.lake, self.state.profile, self.endpoint)
        return [one for one in ids if self.scope.shard.has(one)]

    def _signs(
        self, ids: Sequence[Id], turns: Turns, bulk: BulkList | None, last: LastRead | None
    ) -> Signs:
        """Return what the lake knows about which ids have something to request."""
        state, endpoint, fan_out = self.state, self.endpoint, self.endpoint.fan_out
        signs = Signs(now=self.now, moved_at=self._moved_at(bulk))
        at_each_load = turns.at_each_load(ids)
        if fan_out is None or last is None or last.unsettled is None:
            return signs
        if len(at_each_load) == len(ids):
            return signs
        read_at, counted_from = last.unsettled.end + SETTLE, self.now - RATE_PERIOD
        turn_at = turns.last(ids, self.now)
        if all(read_at < turn for turn in turn_at.values()):
            return signs
        return replace(
            signs,
            turn_at=turn_at,
            counted=records_by_id(state.lake, state.profile, endpoint, since=counted_from),
            urged_at=last_events(state.lake, fan_out.urged_by, since=self.now - SWEEP),
            page=endpoint.page_size / fan_out.ids_per_call,
            read_at=read_at,
            measured=frozenset(ids[::MEASURED]) | at_each_load,
        )

    def _of_groups(self) -> dict[Id, timedelta]:
        """Return the freshness of the ids whose group has one of its own."""
        chosen, fan_out = self.scope.group_freshness, self.endpoint.fan_out
        if not chosen or fan_out is None:
            return {}
        groups = group_names(self.state.lake, ENDPOINTS[fan_out.source])
        return {one: chosen[name] for one, name in groups.items() if name in chosen}

    def _moved_at(self, bulk: BulkList | None) -> dict[Id, datetime]:
        """Return when each id changed according to a bulk list; nothing if that is not fresh."""
        moved = self.endpoint.fan_out.moved if self.endpoint.fan_out else None
        if moved is None or not self._is_fresh(ENDPOINTS[moved.endpoint], bulk):
            return {}
        moved_at = last_moves(self.state.lake, moved)
        # For an id that is no longer listed, the lake has only an outdated time of change.
        listed: Collection[Any] = moved_at.keys()
        if bulk is not None and bulk.ids is not None:
            listed = frozenset(bulk.ids.to_pylist())
        return {one: at for one, at in moved_at.items() if at is not None and one in listed}

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
        asked: Sequence[Id],
        proven: Proven,
        *,
        since: datetime,
        swept: Collection[Id],
        swept_from: datetime,
    ) -> list[tuple[Id, Interval]]:
        changing = changing_since(self.state.lake, self.state.profile, self.endpoint)
        again_from = min(changing or swept_from, swept_from)
        return [
            (partition, interval)
            for partition in asked
            for interval in still_to_read(
                proven.get(_key(partition), []),
                now=self.now,
                since=since,
                again_from=again_from if partition in swept else changing,
                only=self.scope.only,
            )
        ]

    def _expired(
        self, proven: Proven, wanted: Sequence[tuple[Id, Interval]]
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

    def _unconfirmed(self) -> frozenset[str]:
        """Return the ids that this account may not see now; nothing is proven for them."""
        if self.endpoint.fan_out is None:
            return frozenset()
        keys = self.state.unconfirmed.get(self.endpoint.fan_out.source, ())
        return frozenset(str(json.loads(key)[0]) for key in keys)


def _key(partition: Id) -> str:
    return WHOLE_STREAM if partition is None else str(partition)
