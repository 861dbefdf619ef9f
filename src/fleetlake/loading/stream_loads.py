"""Load a stream ordered by event time: records that are new or still missing."""

import logging
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial

from fleetlake.decoding.arrow import Page
from fleetlake.endpoints.model import Endpoint
from fleetlake.lake.connection import Lake
from fleetlake.lake.gaps import record_gaps
from fleetlake.lake.lateness import found_by_sweep
from fleetlake.lake.watermarks import WHOLE_STREAM, LastRead
from fleetlake.loading.load_plan import BulkList, LoadPlan, plan_load
from fleetlake.loading.outcome import StreamRead
from fleetlake.loading.run import Run
from fleetlake.loading.writer import Writer
from fleetlake.planning.coverage import SETTLE, unsettled
from fleetlake.planning.intervals import Interval
from fleetlake.reading.walks import read_spans
from fleetlake.reading.windows import spans_of

logger = logging.getLogger(__name__)


async def load_events(
    run: Run, endpoint: Endpoint, *, now: datetime, bulk: BulkList | None
) -> StreamRead:
    """Load the new and missing records of a stream; `now` is the service's clock.

    Raises: ServiceError if a page fails permanently, LakeError; earlier pages are kept.
    """
    plan = await run.lake.know(
        lambda state: plan_load(state, endpoint, now=now, scope=run.scope, bulk=bulk)
    )
    again = unsettled(now, run.lateness.get(endpoint.name))
    writer = Writer(run, endpoint, plan, now=now, unsettled=again)
    first = await _read(run, endpoint, plan, writer, ends=_end_of(run, plan, again))
    # After the load, because it also requests expired ranges: the service may still have them.
    lost = 0
    if plan.expired:
        lost = await run.lake.do(
            lambda lake: record_gaps(lake, run.profile, endpoint, plan.expired, first)
        )
    if plan.is_sweep and run.lake.totals[endpoint.name].added:
        await run.lake.do(partial(_report_sweep, run=run, endpoint=endpoint, again=again))
    return StreamRead(skipped=plan.skipped, lost=lost)


async def _read(
    run: Run, endpoint: Endpoint, plan: LoadPlan, writer: Writer, *, ends: LastRead | None
) -> dict[str, datetime]:
    """Read and write everything in the plan; if the walks fail, keep what was read.

    Return, by partition, the time of the first record of an expired range that still came.
    """
    is_whole, first = False, dict[str, datetime]()
    spans = spans_of(endpoint, plan.wanted)
    try:
        async for reading in read_spans(run.client, endpoint, spans, walks=run.walks):
            run.watcher.on_page(endpoint.name, reading.page.count)
            for partition, moment in first_expired(endpoint, plan.expired, reading.page).items():
                first[partition] = min(first.get(partition, moment), moment)
            await writer.write(reading)
        is_whole = True
    finally:
        await writer.flush(ends=ends if is_whole else None)
    return first


def first_expired(
    endpoint: Endpoint, expired: Mapping[str, Sequence[Interval]], page: Page
) -> dict[str, datetime]:
    """Return, by partition, the time of the first record of an expired range on a page."""
    first: dict[str, datetime] = {}
    if not expired or not page.rows.num_rows:
        return first
    moments = page.rows.column(endpoint.event_time).to_pylist()
    fan_out = endpoint.fan_out
    ids = page.rows.column(fan_out.partition).to_pylist() if fan_out else None
    for row, moment in enumerate(moments):
        partition = WHOLE_STREAM if ids is None else str(ids[row])
        if any(one.start <= moment < one.end for one in expired.get(partition, ())):
            first[partition] = min(first.get(partition, moment), moment)
    return first


def _end_of(run: Run, plan: LoadPlan, again: Interval) -> LastRead | None:
    """Return what the next load needs to know about this one after it is complete."""
    if plan.swept_at is None:
        return None
    return LastRead(
        shard=str(run.scope.shard),
        unsettled=again,
        swept_at=plan.swept_at,
        wanted_from=plan.wanted_from,
    )


def _report_sweep(lake: Lake, *, run: Run, endpoint: Endpoint, again: Interval) -> None:
    """Log how many records the daily sweep found beyond the usual lookback."""
    beyond = again.end - again.start + SETTLE
    if records := found_by_sweep(lake, run.run_id, endpoint.name, beyond=beyond):
        logger.warning(
            "The daily sweep of %s found %s records that arrived after the lookback of earlier "
            "loads; from now on loads look further back.",
            endpoint.name,
            f"{records:,}",
        )
