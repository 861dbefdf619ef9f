"""Build the marts and publish them."""

from prefect import flow, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.states import Completed

from fleetlake.marts import BuildResult
from fleetlake.marts import build_marts as build_lake_marts
from fleetlake.publishing.publish import Published, published_place
from fleetlake.publishing.publish import publish as publish_marts
from fleetlake.settings import load_settings
from flows.reports import report_build, report_published
from flows.retries import RETRIES
from flows.waiting import skip, waiting_runs


@flow(name="build_marts", flow_run_name="build marts")
def build_marts(*, full: bool = False) -> State[None]:
    """Build the marts from what is in the lake, test them, and publish them.

    `full` computes incremental marts from the beginning. Builds that waited for their turn when
    this one began are skipped once it has done well: it has seen all that they would have.
    """
    waiting = waiting_runs()
    built = build_models(full=full)
    publish_snapshot()
    skip(waiting)
    return Completed(message=f"{len(built.models):,} models in {built.seconds:.1f} s.")


@flow(name="publish", flow_run_name="publish marts")
def publish() -> None:
    """Publish the marts as they are in the lake, without building them."""
    publish_snapshot()


@task(name="build models", cache_policy=NO_CACHE, **RETRIES)
def build_models(*, full: bool) -> BuildResult:
    """Run the SQL project over the lake's newest snapshot."""
    settings = load_settings()
    result = build_lake_marts(settings.lake, is_full=full, memory=settings.build_memory)
    if result.models:
        report_build(result)
    return result


@task(name="publish snapshot", cache_policy=NO_CACHE, **RETRIES)
def publish_snapshot() -> Published:
    """Write the marts as plain files and let readers see them."""
    settings = load_settings()
    done = publish_marts(
        settings.lake, published_place(settings), day_rows=settings.published_day_rows
    )
    report_published(done)
    return done
