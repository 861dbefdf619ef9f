"""What the streams of one run share, created before any of them starts."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import TypeVar

from fleetlake.decoding.arrow import read_page
from fleetlake.endpoints import PROBE
from fleetlake.endpoints.model import Endpoint
from fleetlake.errors import LakeError
from fleetlake.lake.commit import commit_load, commit_proofs
from fleetlake.lake.connection import Lake
from fleetlake.lake.known_keys import KnownKeys
from fleetlake.lake.loads import Attempt, Batch, Committed, Proof, ShrinkRule, StreamProof, Whole
from fleetlake.lake.run_state import RunState
from fleetlake.lake.watermarks import HeldList
from fleetlake.lake_address import LakeAddress
from fleetlake.loading.outcome import Outcome
from fleetlake.planning.intervals import Interval
from fleetlake.planning.shards import WHOLE, Shard
from fleetlake.service.client import Client
from fleetlake.service.clock import Clock, provable_until

Result = TypeVar("Result")

MARK_SECONDS = 10.0
"""A run writes at least this often how far its streams were read; each time takes 0.1 s."""


class LakeThread:
    """Commits the loads of one run while the next pages are being read.

    A load without changes is not committed separately: what it proves waits for `commit_proofs`,
    up to `MARK_SECONDS`, and so do the ends of all reads and when lists were read. `totals` counts
    what each endpoint's loads have changed so far.
    """

    def __init__(
        self, state: RunState, thread: ThreadPoolExecutor, clock: Clock, *, run_id: str
    ) -> None:
        self._state, self._thread, self._clock, self._run_id = state, thread, clock, run_id
        self._waiting: list[StreamProof] = []
        self._marked_at = time.monotonic()
        self._keys = KnownKeys()
        self._service_time: datetime | None = None
        self.totals: dict[str, Committed] = defaultdict(lambda: Committed(0, 0, 0))

    @property
    def path(self) -> LakeAddress:
        """The address of the lake."""
        return self._state.lake.path

    async def do(self, work: Callable[[Lake], Result]) -> Result:
        """Run blocking work on the lake's thread and return its result."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, partial(work, self._state.lake))

    async def know(self, work: Callable[[RunState], Result]) -> Result:
        """Do the same for work that needs what the run knows of the lake."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, partial(work, self._state))

    async def commit(self, batch: Batch, proof: Proof, whole: Whole | None = None) -> Committed:
        """Commit a load. A started commit is finished even if the run is being stopped.

        Nothing is proven beyond the newest record time. Raises: LakeError.
        """
        self.note_service_time(proof.service_time)
        limit = provable_until(self._clock, self._service_time)
        sure = proof if limit is None else proof.before(limit)
        # The end of a read says how far all of it is proven, so it waits for the other proofs.
        sure = replace(sure, ends=None)
        attempt, keys = Attempt(self._run_id), self._keys
        commit = self.know(
            lambda state: commit_load(
                *(state, batch, sure, attempt),
                whole=whole,
                keys=keys,
                only_changes=True,
                is_marked=not batch.endpoint.is_snapshot,
            )
        )
        done = await asyncio.shield(commit)
        if done.asks_again:
            return done
        if whole and whole.digest and done.snapshot and not done.unconfirmed:
            proof = replace(proof, held=HeldList(whole.digest, done.snapshot))
        if not done.is_nothing and sure.proven == proof.proven:
            proof = replace(proof, proven={})
        load_id = None if done.is_nothing else attempt.load_id
        self._waiting.append(StreamProof(batch.endpoint, batch.profile, proof, load_id))
        self.totals[batch.endpoint.name] = self.totals[batch.endpoint.name].plus(done)
        if time.monotonic() - self._marked_at >= MARK_SECONDS:
            await self.commit_proofs()
        return done

    async def spare(self, endpoint: Endpoint, digest: str, proof: Proof) -> bool:
        """Return whether the lake holds a list as it was read, so that it need not be committed.

        Its proof is committed with the others then.
        """

        def held(state: RunState) -> HeldList | None:
            is_held = state.holds(endpoint, digest)
            return HeldList(digest, state.snapshot) if is_held and state.snapshot else None

        if (found := await self.know(held)) is None:
            return False
        self.note_service_time(proof.service_time)
        self._waiting.append(StreamProof(endpoint, self._state.profile, replace(proof, held=found)))
        return True

    def note_service_time(self, newest: datetime | None) -> None:
        """Note a time that the service has put on a record: nothing up to it is in the future."""
        self._service_time = max(filter(None, (self._service_time, newest)), default=None)

    async def commit_proofs(self, *, also: Callable[[Lake], None] | None = None) -> None:
        """Commit what waits, up to the newest record time; what lies behind it waits on.

        `also` makes the other writes at the end of the run, in the same transaction.
        """
        self._marked_at = time.monotonic()
        limit = provable_until(self._clock, self._service_time)
        waiting, self._waiting = self._waiting, []
        proofs = [
            one if limit is None else replace(one, proof=one.proof.before(limit)) for one in waiting
        ]
        try:
            await asyncio.shield(self.know(partial(commit_proofs, proofs=proofs, also=also)))
        except LakeError:
            self._waiting += waiting
            raise
        self._waiting += [one for one, sure in zip(waiting, proofs, strict=True) if one != sure]


async def service_now(client: Client) -> datetime:
    """Return the service's clock, UTC. Makes one call if nothing was read yet."""
    return await client.service_now(PROBE.path, partial(read_page, PROBE))


@dataclass(frozen=True)
class Watcher:
    """Callbacks for a caller: a page was read, a stream has ended, the run is being stopped."""

    on_page: Callable[[str, int], None] = lambda _endpoint, _records: None
    on_end: Callable[[Outcome], None] = lambda _outcome: None
    on_stop: Callable[[], None] = lambda: None


@dataclass(frozen=True, kw_only=True)
class Scope:
    """What a run loads.

    It loads events from `since` on, or those of the past range `only`, and the `shard` of divisible
    streams. If a list lost more than `shrink_pct` percent of its records, the loss is not accepted
    unless `accept_shrunk` names the list. `retention` is how many days rows stay, by endpoint.
    `freshness` is about how old the records of a device may become, by endpoint; a fan-out that it
    does not name requests each device at each load. `group_freshness` is the same for the devices
    of groups, by their names in lower case.
    """

    since: datetime | None = None
    only: Interval | None = None
    shard: Shard = WHOLE
    shrink_pct: int = ShrinkRule.limit_pct
    accept_shrunk: Collection[str] = ()
    retention: Mapping[str, int] = field(default_factory=dict)
    freshness: Mapping[str, timedelta] = field(default_factory=dict)
    group_freshness: Mapping[str, timedelta] = field(default_factory=dict)

    def shrink_rule(self, endpoint: Endpoint) -> ShrinkRule:
        """Return how much of an endpoint's list may disappear at once."""
        is_accepted = endpoint.name in self.accept_shrunk
        return ShrinkRule(limit_pct=self.shrink_pct, is_accepted=is_accepted)


@dataclass(frozen=True, kw_only=True)
class Run:
    """The client, lake, scope and limits that the streams of one run share.

    `walks` is the number of concurrent walks per stream. `lateness` is how late the records of
    each endpoint arrived, as measured by earlier loads.
    """

    client: Client
    lake: LakeThread
    watcher: Watcher
    walks: int
    profile: str
    run_id: str
    scope: Scope
    lateness: Mapping[str, timedelta]
