"""Build the marts and publish them; people are told about new findings."""

from prefect import flow, get_run_logger, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.states import Completed

from fleetlake.errors import BuildFailed, FleetlakeError, StreamBusy
from fleetlake.marts import BuildResult
from fleetlake.marts import build_marts as build_lake_marts
from fleetlake.marts.on_target import target_of
from fleetlake.notifying.notify import notify
from fleetlake.publishing.publish import Published
from fleetlake.publishing.publish import publish as publish_marts
from fleetlake.publishing.snapshot_folders import published_folder
from fleetlake.settings import load_settings
from fleetlake.text.wording import counted
from flows.reports import report_build, report_published
from flows.retries import RETRIES
from flows.waiting import skip, waiting_runs


@flow(name="build_marts", flow_run_name="build marts")
def build_marts(*, full: bool = False) -> State[None]:
    """Build the marts from the lake, test them and publish them, also those beside a failed one.

    `full` recomputes incremental marts from scratch. Builds that were queued when this one
    started are skipped once it succeeds, because it has read everything that they would read.
    """
    waiting = waiting_runs()
    try:
        built = build_models(full=full)
    except BuildFailed as failed:
        if failed.is_partial:
            publish_snapshot()
            tell_of_findings()
        raise
    publish_snapshot()
    tell_of_findings()
    skip(waiting)
    return Completed(message=f"{counted(len(built.models), 'model')} in {built.seconds:.1f} s.")


@flow(name="publish", flow_run_name="publish marts")
def publish() -> None:
    """Publish the marts that are in the lake, without building them."""
    publish_snapshot()


@task(name="build models", cache_policy=NO_CACHE, **RETRIES)
def build_models(*, full: bool) -> BuildResult:
    """Run the SQL project over the lake's newest snapshot."""
    settings = load_settings()
    target = target_of(settings.build_on, settings.build_storage)
    result = build_lake_marts(
        settings.lake, is_full=full, memory=settings.build_memory, target=target
    )
    if result.models:
        report_build(result)
    return result


@task(name="publish snapshot", cache_policy=NO_CACHE, **RETRIES)
def publish_snapshot() -> Published:
    """Write the marts as plain files and switch readers to them."""
    settings = load_settings()
    done = publish_marts(
        settings.lake,
        published_folder(settings),
        raw=settings.publish_raw,
        day_rows=settings.published_day_rows,
        is_coarse=settings.published_coarse,
        budgets=settings.daily_budgets(),
    )
    report_published(done)
    return done


def tell_of_findings() -> int:
    """Snooze what is planned, and send the messages that are due; what fails is logged.

    Returns how many places were told.
    """
    settings = load_settings()
    if not (settings.notify or settings.maintenance):
        return 0
    try:
        return sum(one.is_sent for one in notify(settings))
    except StreamBusy:  # the other one tells them
        return 0
    except FleetlakeError as error:
        get_run_logger().warning("Messages about findings are not sent yet: %s", error)
        return 0
