"""Build the live marts within seconds after alerts and failovers arrive."""

import time
from typing import Annotated

from prefect import flow, get_run_logger, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.states import Completed
from pydantic import Field

from fleetlake.errors import BuildFailed
from fleetlake.machine.file_locks import LockTaken
from fleetlake.marts.live import live_builds, live_lock
from fleetlake.settings import load_settings
from fleetlake.text.wording import counted
from flows.build import publish_snapshot, tell_of_findings
from flows.retries import RETRIES
from flows.states import SKIPPED

LOOK_SECONDS = 5.0
REST_SECONDS = 10.0
"""At least this long from one build to the next, because each of them is a commit."""

TURN_SECONDS = 120.0
"""How long a run waits for the one before it, which it follows without a pause."""

MOST_FAILURES = 3
"""A run ends after this many failed builds in a row; fewer may be a killed dbt, or a full disk."""

PUBLISH_SECONDS = 300.0
"""At least this long from one snapshot to the next, because a reader may still use the last one."""


@flow(name="live_marts", flow_run_name="live marts")
def live_marts(minutes: Annotated[float, Field(ge=0, le=60)] = 0) -> State[None]:
    """Build the live marts whenever alerts or failovers have arrived, polled or pushed.

    The run looks at the lake every few seconds for `minutes`, otherwise once. It publishes what it
    built every five minutes, and at its end. It ends as Skipped if another run does so already.
    """
    try:
        with live_lock(load_settings().lake, seconds=TURN_SECONDS):
            seconds = follow_events(minutes)
    except LockTaken:
        return Completed(name=SKIPPED, message="Another run keeps the live marts up to date.")
    longest = f", the longest took {max(seconds):.1f} s" if seconds else ""
    return Completed(message=f"{counted(len(seconds), 'build')}{longest}.")


@task(name="follow events", cache_policy=NO_CACHE, **RETRIES)
def follow_events(minutes: float) -> list[float]:
    """Build and publish for some minutes; look at least once. Return the seconds of each build.

    After a build it rests for at least as long as that took: builds take half of the time at most.

    Raises: BuildFailed after several failed builds in a row, or if the last one failed.
    """
    settings, logger, seconds, failures = load_settings(), get_run_logger(), list[float](), 0
    is_new, published_at = False, time.monotonic()
    ends_at = published_at + minutes * 60
    with live_builds(settings.lake, memory=settings.build_memory) as look:
        while True:
            began = time.monotonic()
            try:
                built, failures = look(), 0
            except BuildFailed as failed:
                built, failures = None, failures + 1
                is_new = is_new or failed.is_partial
                if failures == MOST_FAILURES or time.monotonic() + REST_SECONDS >= ends_at:
                    raise
                logger.warning("%s Trying again.", failed)
            if built and built.models:
                logger.info("%s in %.1f s", counted(len(built.models), "model"), built.seconds)
                seconds.append(built.seconds)
                is_new = True
            spent = time.monotonic() - began
            rest = max(REST_SECONDS, spent) if built or failures else LOOK_SECONDS
            is_last = time.monotonic() + rest >= ends_at
            if is_new and (is_last or time.monotonic() - published_at >= PUBLISH_SECONDS):
                publish_snapshot()
                tell_of_findings()
                is_new, published_at = False, time.monotonic()
            if is_last:
                return seconds
            time.sleep(rest)
