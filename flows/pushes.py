"""Bring pushed messages into the lake where their receiver cannot, and announce alerts soon."""

import time
from typing import Annotated

from prefect import flow, get_run_logger, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.states import Completed
from pydantic import Field

from fleetlake.errors import StreamBusy
from fleetlake.receiving.drain import Drained, drain_batches
from fleetlake.receiving.journal_table import has_journal, has_messages
from fleetlake.settings import Settings, load_settings
from fleetlake.text.wording import counted
from flows.alert_events import announce_if_possible
from flows.reports import report_pushes
from flows.retries import RETRIES
from flows.states import SKIPPED

LOOK_SECONDS = 5.0


@flow(name="drain_journal", flow_run_name="drain journal")
def drain_journal(minutes: Annotated[float, Field(ge=0, le=60)] = 0) -> State[None]:
    """Commit what the journal on this machine holds, and announce new alerts.

    For a receiver that has no access to the lake (`fleetlake receive --no-drain`): the worker needs
    access to its FLEETLAKE_PUSH_JOURNAL. With `minutes`, the run looks again every few seconds for
    that long; otherwise it looks once. It ends as Skipped if there is nothing to look at.
    """
    settings = load_settings()
    folder = settings.push_journal
    if not (has_journal(folder) or settings.alert_events):
        return Completed(name=SKIPPED, message=f"No journal in {folder}, and no alert_events.")
    drained, announced = drain_for(minutes)
    report_pushes(drained, announced)
    messages = counted(drained.messages, "message")
    return Completed(message=f"{messages}, {counted(announced, 'alert')} announced.")


@task(name="drain", cache_policy=NO_CACHE, **RETRIES)
def drain_for(minutes: float) -> tuple[Drained, int]:
    """Drain and announce for some minutes, at least once; return what was drained and announced."""
    settings, drained, announced = load_settings(), Drained(), 0
    ends_at = time.monotonic() + minutes * 60
    while True:
        drained += _drain(settings)
        announced += announce_if_possible(settings)
        if time.monotonic() + LOOK_SECONDS >= ends_at:
            return drained, announced
        time.sleep(LOOK_SECONDS)


def _drain(settings: Settings) -> Drained:
    """Drain the journal if it holds messages, and no other process does."""
    drained = Drained()
    if not has_messages(settings.push_journal):
        return drained
    try:
        for batch in drain_batches(settings.lake, settings.push_journal, profile=settings.profile):
            drained += batch
    except StreamBusy as busy:  # another process drains, or keeps the lake quiet
        get_run_logger().info("%s", busy.what)
    return drained
