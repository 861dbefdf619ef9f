"""Load a list that is read whole each time."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from fleetlake.account import DEFAULT_PROFILE, stream_name
from fleetlake.concurrency import all_of
from fleetlake.decoding.arrow import newest_service_time
from fleetlake.endpoints import ENDPOINTS
from fleetlake.endpoints.model import Endpoint, Mode, Walk
from fleetlake.errors import ListShrank
from fleetlake.lake.current import current_keys, fan_out_ids
from fleetlake.lake.loads import Committed
from fleetlake.lake.watermarks import watermark
from fleetlake.loading.outcome import StreamRead
from fleetlake.loading.run import Run
from fleetlake.loading.writer import Writer
from fleetlake.planning.coverage import unsettled
from fleetlake.reading.pages import read_pages
from fleetlake.reading.walks import Reading


async def load_snapshot(run: Run, endpoint: Endpoint, *, now: datetime) -> StreamRead:
    """Load a list that is read whole each time; return its ids if other streams need them.

    If a record is deleted during a read, a list paged by offset shifts and skips another record.
    So such a list is read a second time if records are missing. So is any list that has lost too
    many records. Raises: ServiceError, LakeError.
    """
    walks = await _walks_of(run, endpoint)
    writer = Writer(
        endpoint,
        run.lake.commit,
        profile=run.profile,
        run_id=run.run_id,
        seen_at=await _seen_at(run, endpoint, now),
        unsettled=unsettled(now, run.lateness.get(endpoint.name)),
        shrink=run.scope.shrink_rule(endpoint),
    )
    readings = await _read_list(run, endpoint, walks)
    was_read_twice = False
    if endpoint.cursor.walk is Walk.OFFSET and any(not r.page.is_last for r in readings):
        known = await run.lake.do(lambda lake: current_keys(lake, endpoint, profile=run.profile))
        if known - set().union(*(reading.page.keys(endpoint.key) for reading in readings)):
            readings += await _read_list(run, endpoint, walks)
            was_read_twice = True
    asked = walks if endpoint.fan_out else None
    try:
        await _commit_list(writer, readings, asked, may_ask_again=not was_read_twice)
    except ListShrank:
        readings += await _read_list(run, endpoint, walks)
        await _commit_list(writer, readings, asked, may_ask_again=False)
    return StreamRead(listed=_ids_listed(endpoint, readings))


async def _seen_at(run: Run, endpoint: Endpoint, now: datetime) -> datetime:
    """Return the time of a list's load; for a list kept as history, not before the last load.

    Machines with different clocks may load the list in turn, but a version cannot end before it
    starts.
    """
    if endpoint.mode is not Mode.HISTORY:
        return now
    last = await run.lake.do(lambda lake: watermark(lake, run.profile, endpoint))
    return max(now, last) if last else now


async def _walks_of(run: Run, endpoint: Endpoint) -> list[tuple[int, ...]]:
    """Return the ids that each walk of a list requests; without a fan-out, one walk without ids."""
    if endpoint.fan_out is None:
        return [()]
    ids = await run.lake.do(lambda lake: fan_out_ids(lake, run.profile, endpoint))
    size = endpoint.fan_out.ids_per_call
    return [tuple(ids[i : i + size]) for i in range(0, len(ids), size)]


async def _read_list(
    run: Run, endpoint: Endpoint, chunks: Sequence[tuple[int, ...]]
) -> list[Reading]:
    """Return every page of the list, for all ids of its fan-out."""

    async def read_chunk(partitions: tuple[int, ...]) -> list[Reading]:
        readings = []
        async for page in read_pages(run.client, endpoint, partitions=partitions):
            run.watcher.on_page(endpoint.name, page.count)
            run.client.clock.record_seen(newest_service_time(endpoint, page))
            readings.append(Reading(page, partitions, None))
        return readings

    walks = await all_of(read_chunk(chunk) for chunk in chunks)
    return [reading for walk in walks for reading in walk]


async def _commit_list(
    writer: Writer,
    readings: Sequence[Reading],
    asked: Sequence[tuple[int, ...]] | None,
    *,
    may_ask_again: bool,
) -> None:
    for reading in readings:
        await writer.write(reading)
    await writer.flush(is_whole=True, asked=asked, may_ask_again=may_ask_again)


def _ids_listed(endpoint: Endpoint, readings: Sequence[Reading]) -> frozenset[Any] | None:
    """Return the ids of a bulk list, which says which ids of a fan-out changed; otherwise None."""
    fan_outs = [other.fan_out for other in ENDPOINTS.values() if other.fan_out]
    moved = [f.moved for f in fan_outs if f.moved and f.moved.endpoint == endpoint.name]
    if not moved:
        return None
    pages = (reading.page for reading in readings)
    return frozenset(id_ for page in pages for (id_,) in page.keys([moved[0].id]))


def list_shrank(endpoint: Endpoint, profile: str, done: Committed) -> ListShrank:
    """Return the error of a list that has lost more records than the shrink rule allows."""
    option = "" if profile == DEFAULT_PROFILE else f" --profile {profile}"
    return ListShrank(
        f"{stream_name(endpoint.name, profile)} no longer lists {done.unconfirmed:,} of "
        f"{done.held:,} records. Their versions stay open; the records that it lists were loaded.",
        remedy="Check that the keys still see the whole account. If the records are gone for "
        f"good, run `fleetlake ingest {endpoint.name} --accept-shrunk {endpoint.name}{option}`.",
    )
