"""Copy what is new of a group of endpoints into the lake."""

from prefect import flow, get_run_logger, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.states import Completed

from fleetlake.errors import StreamBusy
from fleetlake.ingest import ingest as ingest_endpoints
from fleetlake.ingest import raise_worst
from fleetlake.lake import open_lake
from fleetlake.run import Outcome, Watcher
from fleetlake.status import stream_statuses
from flows.credentials import settings_of_run
from flows.groups import Group, endpoints_of
from flows.reports import outcome_line, report_ingest
from flows.retries import RETRIES, stopping_in_order


@flow(name="ingest", flow_run_name="ingest {group}")
def ingest(group: Group) -> State[None]:
    """Copy everything new of a group of endpoints from the service into the lake.

    Ends as Skipped where other processes hold every stream. Fails where a stream failed; what
    the others brought is kept and built all the same.
    """
    outcomes = load_streams(group)
    busy = [o.endpoint for o in outcomes if isinstance(o.error, StreamBusy)]
    if len(busy) == len(outcomes):
        return Completed(name="Skipped", message=f"Held by another run: {', '.join(busy)}.")
    return Completed(message=f"{sum(o.added for o in outcomes):,} rows added.")


@task(name="load streams", cache_policy=NO_CACHE, **RETRIES)
def load_streams(group: Group) -> list[Outcome]:
    """Load a group's streams side by side, and report each try."""
    logger = get_run_logger()
    settings = settings_of_run()
    watcher = Watcher(on_end=lambda outcome: logger.info("%s", outcome_line(outcome)))
    with stopping_in_order():
        outcomes = ingest_endpoints(settings, endpoints_of(group), watcher=watcher)
    with open_lake(settings.lake, read_only=True) as lake:
        report_ingest(group, outcomes, stream_statuses(lake))
    raise_worst(outcomes)
    return outcomes
