"""Copy what is new of a group of endpoints into the lake."""

from prefect import flow, get_run_logger, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.states import Completed

from fleetlake.errors import StreamBusy
from fleetlake.ingest import ingest as ingest_endpoints
from fleetlake.ingest import raise_worst
from fleetlake.run import Outcome, Watcher
from flows.credentials import settings_of_run
from flows.groups import Group, endpoints_of
from flows.reports import outcome_line, report_ingest
from flows.retries import RETRIES, stopping_in_order
from flows.signals import announce_changes, look_at_lake
from flows.states import SKIPPED


@flow(name="ingest", flow_run_name="ingest {group}")
def ingest(group: Group, shard: int = 0, shards: int = 1) -> State[None]:
    """Copy everything new of a group of endpoints from the service into the lake.

    A large fleet's group may be dealt out to several deployments as `shards`, numbered from 0.
    Ends as Skipped where other runs hold every stream. Fails where a stream failed; what the
    others brought is kept and built all the same.
    """
    outcomes = load_streams(group, shard, shards)
    busy = [o.endpoint for o in outcomes if isinstance(o.error, StreamBusy)]
    if len(busy) == len(outcomes):
        held = ", ".join(busy) or "nothing of it can be read with these settings"
        return Completed(name=SKIPPED, message=f"Nothing to load: {held}.")
    return Completed(message=f"{sum(o.added for o in outcomes):,} rows added.")


@task(name="load streams", cache_policy=NO_CACHE, **RETRIES)
def load_streams(group: Group, shard: int, shards: int) -> list[Outcome]:
    """Load a group's streams side by side, and report each try."""
    logger = get_run_logger()
    settings = settings_of_run()
    has_v3 = settings.v3_root() is not None
    names = endpoints_of(group, has_v3=has_v3, shard=shard, shards=shards)
    if not names:  # to the core, no name means every endpoint
        return []
    watcher = Watcher(on_end=lambda outcome: logger.info("%s", outcome_line(outcome)))
    before = look_at_lake(settings)
    with stopping_in_order():
        outcomes = ingest_endpoints(settings, names, watcher=watcher)
    after = look_at_lake(settings)
    report_ingest(group, outcomes, after, announce_changes(before, after, names))
    raise_worst(outcomes)
    return outcomes
