"""Load new records of a group of endpoints into the lake."""

from collections.abc import Sequence
from typing import Annotated

from prefect import flow, get_run_logger, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.deployments import run_deployment
from prefect.runtime import flow_run
from prefect.states import Completed
from pydantic import Field

from fleetlake.endpoints import ALERTS
from fleetlake.endpoints.model import Group
from fleetlake.endpoints.relations import endpoints_of
from fleetlake.errors import StreamBusy
from fleetlake.loading.ingest import ingest as ingest_endpoints
from fleetlake.loading.ingest import raise_worst
from fleetlake.loading.outcome import Outcome, outcome_line
from fleetlake.loading.run import Watcher
from fleetlake.planning.shards import PARTS, WHOLE, Shard
from flows.alert_events import announce_if_possible
from flows.credentials import settings_of_run
from flows.reports import report_ingest
from flows.retries import RETRIES, stopping_cleanly
from flows.signals import announce_findings, read_lake_state
from flows.states import SKIPPED

ShardCount = Annotated[int, Field(ge=1, le=PARTS)]


@flow(name="ingest", flow_run_name="ingest {group}")
def ingest(
    group: Group,
    shards: ShardCount = 1,
    accept_shrunk: Sequence[str] = (),
    *,
    when_due: bool = False,
) -> State[None]:
    """Load all new records of a group of endpoints from the service into the lake.

    The run ends as Skipped if other runs hold every stream. It fails if a stream failed; what
    the other streams loaded is kept, and the marts are built from it.

    `accept_shrunk` names lists of the group that have lost most of their records for good.
    Without it such a list fails the run, and none of its records is marked as gone.

    With `when_due`, as the schedule has it, a list is left out while pushes bring its records. A
    run that a person starts reads everything.

    For a large fleet, set `shards`. This run then loads the lists that are read whole, and
    starts that many runs of the deployment `shard` for the endpoints that are read device by
    device.
    """
    is_divided = shards > 1 and bool(endpoints_of(group, is_divisible=True))
    outcomes = load_streams(
        group,
        is_divisible=False if is_divided else None,
        accept_shrunk=accept_shrunk,
        when_due=when_due,
    )
    if is_divided:
        start_shards(group, shards)
    return ended(outcomes)


@flow(name="ingest_shard", flow_run_name="ingest {group}, shard {shard} of {shards}")
def ingest_shard(group: Group, shard: ShardCount, shards: ShardCount) -> State[None]:
    """Load all new records of one share of the devices; `ingest` with `shards` starts this."""
    return ended(load_streams(group, Shard(shard, shards), is_divisible=True))


@task(name="start shards", cache_policy=NO_CACHE, **RETRIES)
def start_shards(group: Group, shards: int) -> None:
    """Start a run for each shard without waiting: there may be more than can run at once.

    A retry starts only the shards that the previous attempt did not start.
    """
    for shard in range(1, shards + 1):
        run_deployment(
            "ingest_shard/shard",
            flow_run_name=f"ingest {group}, shard {shard} of {shards}",
            parameters={"group": group, "shard": shard, "shards": shards},
            timeout=0,
            # A flow run that is retried as a whole gets new shards.
            idempotency_key=f"{flow_run.id}, try {flow_run.run_count}, shard {shard}",
        )


def ended(outcomes: Sequence[Outcome]) -> State[None]:
    """Return the final state of a run: Skipped if it could load no stream."""
    busy = [o.endpoint for o in outcomes if isinstance(o.error, StreamBusy)]
    if len(busy) == len(outcomes):
        held = ", ".join(busy) or "these settings can read none of its endpoints"
        return Completed(name=SKIPPED, message=f"Nothing to load: {held}.")
    added, changed = sum(o.added for o in outcomes), sum(o.changed for o in outcomes)
    return Completed(message=f"{added:,} rows added, {changed:,} changed.")


@task(name="load streams", task_run_name="load {group}", cache_policy=NO_CACHE, **RETRIES)
def load_streams(
    group: Group,
    shard: Shard = WHOLE,
    *,
    is_divisible: bool | None = None,
    accept_shrunk: Sequence[str] = (),
    when_due: bool = False,
) -> list[Outcome]:
    """Load a group's streams concurrently, and report each attempt."""
    logger = get_run_logger()
    settings = settings_of_run()
    has_v3 = settings.v3_root() is not None
    names = endpoints_of(group, has_v3=has_v3, is_divisible=is_divisible)
    if not names:  # for `ingest`, no name means every endpoint
        return []
    watcher = Watcher(on_end=lambda outcome: logger.info("%s", outcome_line(outcome)))
    with stopping_cleanly():
        outcomes = ingest_endpoints(
            settings,
            names,
            watcher=watcher,
            shard=shard,
            accept_shrunk=accept_shrunk,
            when_due=when_due,
        )
    state = read_lake_state(settings)
    report_ingest(group, shard, outcomes, state, announce_findings(state, names))
    if ALERTS.name in names:
        announce_if_possible(settings)
    raise_worst(outcomes)
    return outcomes
