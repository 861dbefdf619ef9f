"""What the streams of one run share, created before any of them starts."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
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
    """

    since: datetime | None = None
    only: Interval | None = None
    shard: Shard = WHOLE
    shrink_pct: int = ShrinkRule.limit_pct
    accept_shrunk: Collection[str] = ()
    retention: Mapping[str, int] = field(default_factory=dict)

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
