"""Bring pushed messages into the lake where their receiver cannot, and announce alerts soon."""

import time
from dataclasses import dataclass
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
    done = drain_for(minutes)
    report_pushes(done.drained, done.announced)
    messages = counted(done.drained.messages, "message")
    return Completed(message=f"{messages}, {counted(done.announced, 'alert')} announced.")


@dataclass(frozen=True, kw_only=True)
class Looked:
    """What one or more looks brought: messages read, and alerts announced."""

    drained: Drained
    announced: int


@task(name="drain", cache_policy=NO_CACHE, **RETRIES)
def drain_for(minutes: float) -> Looked:
    """Drain and announce for some minutes; at least once."""
    settings, looks = load_settings(), _Looks()
    ends_at = time.monotonic() + minutes * 60
    looks.look(settings)
    while time.monotonic() + LOOK_SECONDS < ends_at:
        time.sleep(LOOK_SECONDS)
        looks.look(settings)
    return Looked(drained=looks.drained, announced=looks.announced)


class _Looks:
    """The looks of one run: what they brought."""

    def __init__(self) -> None:
        self.drained = Drained()
        self.announced = 0

    def look(self, settings: Settings) -> None:
        """Drain the journal if it holds messages, and announce new alerts."""
        self._drain(settings)
        self.announced += announce_if_possible(settings)

    def _drain(self, settings: Settings) -> None:
        if not has_messages(settings.push_journal):
            return
        try:
            for batch in drain_batches(
                settings.lake, settings.push_journal, profile=settings.profile
            ):
                self.drained += batch
        except StreamBusy as busy:  # another process drains, or keeps the lake quiet
            get_run_logger().info("%s", busy.what)
