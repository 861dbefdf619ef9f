"""Write the report: the dashboard's pages as one HTML file, for mail and archives."""

from typing import Annotated

from prefect import flow, task
from prefect.artifacts import create_markdown_artifact
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.states import Completed
from pydantic import Field

from fleetlake.dashboard.report import KEEP, reports_folder, write_dated_report, write_newest_report
from fleetlake.publishing.snapshot_folders import published_folder
from fleetlake.settings import load_settings
from flows.retries import RETRIES
from flows.waiting import skip, waiting_runs


@flow(name="newest_report", flow_run_name="write the newest report")
def newest_report() -> State[None]:
    """Replace the report over the last 7 days.

    Runs that were queued when this one started are skipped: it shows what they would show.
    """
    waiting = waiting_runs()
    file = write_newest()
    skip(waiting)
    return Completed(message=f"Wrote {file}.")


@flow(name="weekly_report", flow_run_name="write the week's report")
def weekly_report(keep: Annotated[int, Field(ge=1)] = KEEP) -> State[None]:
    """Write a report over the last 7 days, named by its day, and keep the latest `keep` of them."""
    return Completed(message=f"Wrote {write_dated(keep)}.")


@task(name="write newest report", cache_policy=NO_CACHE, **RETRIES)
def write_newest() -> str:
    """Write the report from the newest snapshot; return its file."""
    settings = load_settings()
    return str(write_newest_report(published_folder(settings), reports_folder(settings)))


@task(name="write dated report", cache_policy=NO_CACHE, **RETRIES)
def write_dated(keep: int) -> str:
    """Write the report from the newest snapshot, remove old ones; return its file."""
    settings = load_settings()
    file = write_dated_report(published_folder(settings), reports_folder(settings), keep=keep)
    create_markdown_artifact(
        f"## {file.name}\n\n- in `{file.parent}`\n- the latest {keep} weekly reports are kept",
        key="weekly-report",
        description="Weekly report of the fleet",
    )
    return str(file)
