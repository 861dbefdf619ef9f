"""What the streams of one run share, and what a caller gets to see of them."""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeVar

from fleetlake.account import DEFAULT_PROFILE, stream_name
from fleetlake.decoding.arrow import read_page
from fleetlake.endpoints import PROBE
from fleetlake.errors import FleetlakeError
from fleetlake.lake.commit import commit_load
from fleetlake.lake.connection import Lake
from fleetlake.lake.loads import Committed, Load, ShrinkRule
from fleetlake.planning.intervals import Interval
from fleetlake.planning.shards import WHOLE, Shard
from fleetlake.service.client import Client
from fleetlake.text.wording import counted


async def service_now(client: Client) -> datetime:
    """Return the service's clock, UTC; where nothing was read yet, that costs one call."""
    return await client.service_now(PROBE.path, partial(read_page, PROBE))


Result = TypeVar("Result")


@dataclass(frozen=True)
class Outcome:
    """How the load of one stream went. `error` is None where all of it is committed."""

    endpoint: str
    added: int
    changed: int
    quarantined: int
    calls: int
    seconds: float
    error: FleetlakeError | None = None
    profile: str = DEFAULT_PROFILE
    spared: int = 0  # ids of a fan-out that were not asked, for nothing happened to them
    lost: int = 0  # ranges that the service had forgotten before this load, found by it


def outcome_line(outcome: Outcome) -> str:
    """Return in a line how one stream went."""
    name = stream_name(outcome.endpoint, outcome.profile)
    if outcome.error:
        return f"{name}: {outcome.error.what}"
    told = _told("added", [outcome]) or "nothing new"
    return f"{name}: {told} ({counted(outcome.calls, 'call')}, {outcome.seconds:.1f} s)"


def totals_line(outcomes: Sequence[Outcome], *, seconds: float) -> str:
    """Return in a line what all streams came to; `seconds` is how long it took."""
    whole = sum(outcome.error is None for outcome in outcomes)
    streams = counted(len(outcomes), "stream")
    told = _told("rows added", outcomes) or "0 rows added"
    calls = counted(sum(outcome.calls for outcome in outcomes), "call")
    which = streams if whole == len(outcomes) else f"{whole:,} of {streams}"
    return f"{which}: {told} ({calls}, {seconds:.1f} s)"


def _told(added: str, outcomes: Sequence[Outcome]) -> str:
    counts = {
        added: sum(outcome.added for outcome in outcomes),
        "changed": sum(outcome.changed for outcome in outcomes),
        "quarantined": sum(outcome.quarantined for outcome in outcomes),
    }
    told = [f"{count:,} {what}" for what, count in counts.items() if count]
    if lost := sum(outcome.lost for outcome in outcomes):
        told.append(f"{counted(lost, 'range')} lost: see `fleetlake gaps`")
    return ", ".join(told)


@dataclass(frozen=True)
class Watcher:
    """What a caller may follow: pages as they come, streams as they end, and being stopped."""

    on_page: Callable[[str, int], None] = lambda _endpoint, _records: None
    on_end: Callable[[Outcome], None] = lambda _outcome: None
    on_stop: Callable[[], None] = lambda: None


@dataclass(frozen=True)
class Run:
    """What the streams of one run share."""

    client: Client
    lake: Lake
    thread: ThreadPoolExecutor
    watcher: Watcher
    walks: int
    profile: str
    since: datetime | None
    run_id: str
    only: Interval | None = None  # a backfill's range
    shard: Shard = WHOLE
    shrink_pct: int = ShrinkRule.limit_pct
    accept_shrunk: Collection[str] = ()  # endpoints whose lists have shrunk for good
    ended: dict[str, "asyncio.Future[Outcome]"] = field(default_factory=dict)
    lateness: dict[str, timedelta] = field(default_factory=dict)  # as measured, by endpoint
    spared: Counter[str] = field(default_factory=Counter)
    lost: Counter[str] = field(default_factory=Counter)
    listed: dict[str, frozenset[Any]] = field(default_factory=dict)  # ids that bulk lists held
    quiet: list[Load] = field(default_factory=list)  # brought nothing, but prove something

    def shrink_rule(self, endpoint: str) -> ShrinkRule:
        """Return how much of an endpoint's list may be gone at once."""
        return ShrinkRule(limit_pct=self.shrink_pct, is_accepted=endpoint in self.accept_shrunk)

    def is_fresh(self, endpoint: str) -> bool:
        """Return whether the endpoint was loaded whole in this run."""
        ended = self.ended.get(endpoint)
        if ended is None or not ended.done() or ended.cancelled():
            return False
        return ended.result().error is None

    async def in_lake(self, work: Callable[[], Result]) -> Result:
        """Do blocking work on the thread that owns the lake."""
        return await asyncio.get_running_loop().run_in_executor(self.thread, work)

    async def commit(self, load: Load) -> Committed:
        """Commit a load; once begun it is seen through, even if the run is being stopped.

        One that brings nothing new waits for the end of the run, with all others like it.
        """
        limit = self.client.clock.shown_until()
        sure, left = (load, None) if limit is None else load.split_at(limit)
        commit = partial(commit_load, self.lake, sure, only_changes=True)
        done = await asyncio.shield(self.in_lake(commit))
        if done.is_nothing:
            self.quiet.append(load)
        elif left is not None:
            self.quiet.append(left)
        return done

    def proofs(self) -> list[Load]:
        """Return what was read without anything new in it, proven as far as records show."""
        limit = self.client.clock.shown_until()
        return [load if limit is None else load.proven_before(limit) for load in self.quiet]

    async def now(self) -> datetime:
        """Return the service's clock, UTC."""
        return await service_now(self.client)
