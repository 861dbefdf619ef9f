"""What the streams of one run share: a value, made once before any of them begins."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from fleetlake.decoding.arrow import read_page
from fleetlake.endpoints import PROBE
from fleetlake.endpoints.model import Endpoint
from fleetlake.lake.loads import ShrinkRule
from fleetlake.loading.lake_thread import LakeThread
from fleetlake.loading.outcome import Outcome
from fleetlake.planning.intervals import Interval
from fleetlake.planning.shards import WHOLE, Shard
from fleetlake.service.client import Client


async def service_now(client: Client) -> datetime:
    """Return the service's clock, UTC; where nothing was read yet, that costs one call."""
    return await client.service_now(PROBE.path, partial(read_page, PROBE))


@dataclass(frozen=True)
class Watcher:
    """What a caller may follow: pages as they come, streams as they end, and being stopped."""

    on_page: Callable[[str, int], None] = lambda _endpoint, _records: None
    on_end: Callable[[Outcome], None] = lambda _outcome: None
    on_stop: Callable[[], None] = lambda: None


@dataclass(frozen=True, kw_only=True)
class Scope:
    """What a run was asked to load.

    Events from `since` on, or of the past range `only`; of divisible streams the `shard`. A list
    that lost more than `shrink_pct` percent closes nothing, unless in `accept_shrunk`.
    """

    since: datetime | None = None
    only: Interval | None = None
    shard: Shard = WHOLE
    shrink_pct: int = ShrinkRule.limit_pct
    accept_shrunk: Collection[str] = ()

    def shrink_rule(self, endpoint: Endpoint) -> ShrinkRule:
        """Return how much of an endpoint's list may be gone at once."""
        is_accepted = endpoint.name in self.accept_shrunk
        return ShrinkRule(limit_pct=self.shrink_pct, is_accepted=is_accepted)


@dataclass(frozen=True, kw_only=True)
class Run:
    """What the streams of one run share.

    `walks` is how many walks of a stream go on at a time; `lateness` by endpoint how late its
    records showed up, as earlier loads measured it.
    """

    client: Client
    lake: LakeThread
    watcher: Watcher
    walks: int
    profile: str
    run_id: str
    scope: Scope
    lateness: Mapping[str, timedelta]
