"""Load one stream: a list that is read whole each time, or one ordered by event time."""

import asyncio
import logging
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

from fleetlake.account import DEFAULT_PROFILE, stream_name
from fleetlake.decoding.arrow import Page
from fleetlake.endpoints.model import Endpoint, Mode, Walk
from fleetlake.errors import ListShrank
from fleetlake.lake.connection import Lake
from fleetlake.lake.current import fan_out_ids, lacks_current
from fleetlake.lake.gaps import record_gaps
from fleetlake.lake.lateness import found_by_sweep
from fleetlake.lake.loads import Committed, Proof, Whole
from fleetlake.lake.watermarks import WHOLE_STREAM, LastRead
from fleetlake.loading.load_plan import BulkList, LoadPlan, plan_load
from fleetlake.loading.outcome import StreamRead
from fleetlake.loading.run import Run
from fleetlake.loading.writer import ListPages, Writer, write_list
from fleetlake.planning.coverage import SETTLE, unsettled
from fleetlake.planning.intervals import Interval
from fleetlake.reading.pages import read_pages
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


Result = TypeVar("Result")


async def all_of(coroutines: Iterable[Coroutine[Any, Any, Result]]) -> list[Result]:
    """Return all results in order. The first failure cancels the others and is raised unwrapped."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(coroutine) for coroutine in coroutines]
    except BaseExceptionGroup as several:
        raise several.exceptions[0] from None
    return [task.result() for task in tasks]


async def load_snapshot(run: Run, endpoint: Endpoint, *, now: datetime) -> StreamRead:
    """Load a list that is read whole each time; return its ids if other streams need them.

    If a record is deleted during a read, a list paged by offset shifts and skips another record.
    So such a list is read a second time if records are missing. So is any list that has lost too
    many records. A list that the lake holds as it was read is not compared with it again.
    Raises: ServiceError, LakeError.
    """
    walks = await _walks_of(run, endpoint)
    pages = ListPages(endpoint)
    await _read_list(run, endpoint, walks, pages)
    digest = pages.digest
    proof = Proof(newest=now, service_time=pages.service_time)
    if digest and await run.lake.spare(endpoint, digest, proof):
        return StreamRead(listed=pages.listed)
    seen_at = await _seen_at(run, endpoint, now)
    was_read_twice = False
    if endpoint.cursor.walk is Walk.OFFSET and pages.is_paged:
        keys = pages.rows.columns(endpoint.key)
        is_missing = partial(lacks_current, endpoint=endpoint, keys=keys, profile=run.profile)
        if await run.lake.do(is_missing):
            await _read_list(run, endpoint, walks, pages)
            was_read_twice = True
    whole = Whole(
        asked=walks if endpoint.fan_out else None,
        digest=None if was_read_twice else digest,
        may_ask_again=not was_read_twice,
        shrink=run.scope.shrink_rule(endpoint),
    )
    if not await write_list(run, endpoint, pages, whole, seen_at=seen_at):
        await _read_list(run, endpoint, walks, pages)
        whole = replace(whole, digest=None, may_ask_again=False)
        await write_list(run, endpoint, pages, whole, seen_at=seen_at)
    return StreamRead(listed=pages.listed)


async def _seen_at(run: Run, endpoint: Endpoint, now: datetime) -> datetime:
    """Return the time of a list's load; for a list kept as history, not before the last load.

    Machines with different clocks may load the list in turn, but a version cannot end before it
    starts.
    """
    if endpoint.mode is not Mode.HISTORY:
        return now
    last = await run.lake.know(lambda state: state.newest_watermark(endpoint))
    return max(now, last) if last else now


async def _walks_of(run: Run, endpoint: Endpoint) -> list[tuple[int | str, ...]]:
    """Return the ids that each walk of a list requests; without a fan-out, one walk without ids."""
    if endpoint.fan_out is None:
        return [()]
    ids = await run.lake.do(lambda lake: fan_out_ids(lake, run.profile, endpoint))
    size = endpoint.fan_out.ids_per_call
    return [tuple(ids[i : i + size]) for i in range(0, len(ids), size)]


async def _read_list(
    run: Run, endpoint: Endpoint, chunks: Sequence[tuple[int | str, ...]], pages: ListPages
) -> None:
    """Add every page of the list, for all ids of its fan-out, to what was read before."""

    async def read_chunk(partitions: tuple[int | str, ...]) -> None:
        async for page in read_pages(run.client, endpoint, partitions=partitions):
            run.watcher.on_page(endpoint.name, page.count)
            pages.add(page)

    await all_of(read_chunk(chunk) for chunk in chunks)


def list_shrank(endpoint: Endpoint, profile: str, done: Committed) -> ListShrank:
    """Return the error of a list that has lost more records than the shrink rule allows."""
    option = "" if profile == DEFAULT_PROFILE else f" --profile {profile}"
    return ListShrank(
        f"{stream_name(endpoint.name, profile)} no longer lists {done.unconfirmed:,} of "
        f"{done.held:,} records. Their versions stay open; the records that it lists were loaded.",
        remedy="Check that the keys still see the whole account. If the records are gone for "
        f"good, run `fleetlake ingest {endpoint.name} --accept-shrunk {endpoint.name}{option}`.",
    )
