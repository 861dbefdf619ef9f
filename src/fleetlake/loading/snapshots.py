"""Load a list that is read whole each time."""

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

from fleetlake.account import DEFAULT_PROFILE, stream_name
from fleetlake.endpoints.model import Endpoint, Mode, Walk
from fleetlake.errors import ListShrank
from fleetlake.lake.current import fan_out_ids, lacks_current
from fleetlake.lake.loads import Committed, Proof, Whole
from fleetlake.loading.outcome import StreamRead
from fleetlake.loading.run import Run
from fleetlake.loading.writer import ListPages, write_list
from fleetlake.reading.pages import read_pages

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
