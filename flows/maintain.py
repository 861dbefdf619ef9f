"""Take care of the lake: maintenance, retention watch, nightly comparison with the service."""

from contextlib import suppress
from datetime import datetime, timedelta
from typing import Annotated

from prefect import flow, get_run_logger, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.states import Completed
from pydantic import Field

from fleetlake.care.maintenance import KEEP_SNAPSHOTS, Maintained
from fleetlake.care.maintenance import maintain as maintain_lake
from fleetlake.endpoints.model import Group
from fleetlake.endpoints.relations import endpoints_of
from fleetlake.errors import LakeBusy
from fleetlake.lake import open_lake
from fleetlake.lake.retention_rules import prepare_retention
from fleetlake.loading.ingest import backfill, raise_worst
from fleetlake.loading.quarantine import retry_quarantined
from fleetlake.loading.verify import Comparison, verify
from fleetlake.privacy.after_retention import renew_after_retention
from fleetlake.privacy.receipt import raise_unfinished
from fleetlake.settings import load_settings
from fleetlake.text.wording import counted
from flows.credentials import settings_of_run
from flows.reports import report_maintained, report_retention, report_verdicts
from flows.retries import RETRIES, stopping_cleanly
from flows.signals import (
    announce_destinations,
    announce_events,
    announce_findings,
    announce_journal,
    announce_risks,
    read_lake_state,
)
from flows.states import SKIPPED


@flow(name="maintain", flow_run_name="maintain lake")
def maintain(keep_days: Annotated[int, Field(ge=0)] = KEEP_SNAPSHOTS.days) -> State[None]:
    """Merge small files, expire old snapshots and remove unused files.

    The run ends as Skipped if streams were being loaded the whole time.
    """
    try:
        done = compact(keep_days)
    except LakeBusy as busy:
        return Completed(name=SKIPPED, message=busy.what)
    renew_copies()
    merged = f"{done.files_before:,} files became {done.files_after:,}"
    return Completed(message=f"{counted(done.files_written, 'file')} written; {merged}.")


@flow(name="retention_watch", flow_run_name="watch retention")
def retention_watch() -> State[None]:
    """Send an event for each stream whose records may expire before they are read.

    Also reports what CLI commands and killed runs found: they could not report it themselves. And
    what the lake's audit trail (`meta.events`) has gained since the last watch.
    """
    settings = load_settings()
    state = read_lake_state(settings)
    at_risk = announce_risks(state)
    findings = announce_findings(state) + announce_events(settings)
    findings += announce_destinations(state) + announce_journal(state)
    report_retention(state, at_risk, findings)
    return Completed(message=f"{counted(len(at_risk), 'stream')} at risk.")


@flow(name="nightly", flow_run_name="nightly check")
def nightly(
    groups: tuple[Group, ...] = (Group.EVENTS, Group.ACTIVITY),
    days: Annotated[int, Field(ge=1)] = 1,
) -> State[None]:
    """Compare the last days by key, reload missing records, retry quarantine, maintain the lake.

    Comparing a stream that is read device by device costs a day's calls, so such streams are
    left out unless `groups` names them. Streams that were never loaded are left out too.
    """
    names = {name for group in groups for name in endpoints_of(group)}
    profiles = {account.profile for account in settings_of_run().accounts()}
    verdicts = [
        compare(s.endpoint, s.account_profile, max(since, until - timedelta(days=days)), until)
        for s in read_lake_state(load_settings()).status.streams
        if s.endpoint in names and s.account_profile in profiles
        if (since := s.complete_from) and (until := s.complete_until)
    ]
    report_verdicts(verdicts)
    sweep_quarantine()
    with suppress(LakeBusy):  # the next night is soon enough
        compact(KEEP_SNAPSHOTS.days)
    renew_copies()
    missing = sum(len(verdict.missing) for verdict in verdicts)
    return Completed(message=f"{counted(missing, 'record')} missing in {len(verdicts)} streams.")


@task(name="compact", cache_policy=NO_CACHE, **RETRIES)
def compact(keep_days: int) -> Maintained:
    """Maintain the lake, after waiting a while for loads to end."""
    settings = load_settings()
    with open_lake(settings.lake) as lake:
        prepare_retention(lake, settings.retention, trust=settings.clock)
        done = maintain_lake(lake, keep=timedelta(days=keep_days), days=settings.retention)
    report_maintained(done)
    return done


@task(name="renew copies", cache_policy=NO_CACHE, **RETRIES)
def renew_copies() -> None:
    """Let marts, published snapshots and exports follow if [retention] has deleted rows."""
    renewed = []
    for one in renew_after_retention(load_settings()):
        get_run_logger().info("%s: %s", one.outlet, one.done)
        renewed.append(one)
    raise_unfinished(renewed)


@task(name="compare", task_run_name="compare {name}", cache_policy=NO_CACHE, **RETRIES)
def compare(name: str, profile: str, since: datetime, until: datetime) -> Comparison:
    """Compare a stream's range with the service, and read it again if a record is missing."""
    settings = settings_of_run().account(profile)
    verdict = verify(settings, name, start=since, end=until)
    if verdict.missing and verdict.interval:
        get_run_logger().error("%s: %s missing", name, counted(len(verdict.missing), "record"))
        with stopping_cleanly():
            raise_worst(backfill(settings, name, verdict.interval), named=[name])
    return verdict


@task(name="sweep quarantine", cache_policy=NO_CACHE, **RETRIES)
def sweep_quarantine() -> None:
    """Try again to store the quarantined records, with the current code."""
    with open_lake(load_settings().lake) as lake:
        kept, waiting = retry_quarantined(lake)
    get_run_logger().info(
        "%s stored from quarantine, %s left in it", counted(kept, "record"), waiting
    )
