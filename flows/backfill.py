"""Read a past range of one endpoint again, slice by slice."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Annotated, cast
from uuid import UUID

from prefect import flow, task
from prefect.artifacts import create_progress_artifact, update_progress_artifact
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.states import Completed
from pydantic import Field

from fleetlake.errors import UsageError
from fleetlake.loading.ingest import backfill as backfill_endpoint
from fleetlake.loading.ingest import endpoint_with_past, raise_worst
from fleetlake.planning.intervals import Interval
from fleetlake.text.wording import counted
from flows.credentials import settings_of_run
from flows.retries import RETRIES, stopping_cleanly


@flow(name="backfill", flow_run_name="backfill {endpoint} from {start:%Y-%m-%d}")
def backfill(
    endpoint: str, start: datetime, end: datetime, slice_hours: Annotated[int, Field(ge=1)] = 24
) -> State[None]:
    """Read a past range `[start, end)` again and store what was missing.

    Times without a zone are UTC. The run is safe to repeat and to stop: finished slices are
    kept, and the next ingest reads the rest of an unfinished slice. The oldest slice comes
    first because its records expire first. Raises: UsageError for an endpoint without event
    times, or an empty range.
    """
    endpoint = endpoint_with_past(endpoint).name
    if _in_utc(start) >= _in_utc(end):
        raise UsageError("start is not before end.", remedy="The range is [start, end).")
    slices = list(sliced(_in_utc(start), _in_utc(end), timedelta(hours=slice_hours)))
    key = f"backfill-{endpoint.replace('_', '-')}"
    progress = cast("UUID", create_progress_artifact(0.0, key=key))
    added = 0
    for done, interval in enumerate(slices, start=1):
        added += backfill_slice(endpoint, interval.start, interval.end)
        update_progress_artifact(progress, 100.0 * done / len(slices))
    return Completed(message=f"{counted(added, 'row')} added in {counted(len(slices), 'slice')}.")


@task(
    name="backfill slice",
    task_run_name="{endpoint} from {start:%Y-%m-%d %H:%M}",
    cache_policy=NO_CACHE,
    **RETRIES,
)
def backfill_slice(endpoint: str, start: datetime, end: datetime) -> int:
    """Read one slice again and return how many rows were missing.

    Raises: StreamBusy while a scheduled load holds the stream; the task then retries.
    """
    with stopping_cleanly():
        outcomes = backfill_endpoint(settings_of_run(), endpoint, Interval(start, end))
    raise_worst(outcomes, named=[endpoint], may_skip=False)
    return sum(outcome.added for outcome in outcomes)


def sliced(start: datetime, end: datetime, size: timedelta) -> Iterator[Interval]:
    """Yield a range in slices, oldest first; the last one may be shorter.

    >>> day = datetime(2026, 1, 1, tzinfo=UTC)
    >>> [s.end.hour for s in sliced(day, day + timedelta(hours=5), timedelta(hours=2))]
    [2, 4, 5]
    """
    while start < end:
        until = min(start + size, end)
        yield Interval(start, until)
        start = until


def _in_utc(moment: datetime) -> datetime:
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
