"""Reading and keeping one stream: a snapshot whole, or events from where the last read ended."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from fleetlake.account import DEFAULT_PROFILE, stream_name
from fleetlake.concurrency import all_of
from fleetlake.decoding.arrow import shown_by
from fleetlake.endpoints import ENDPOINTS
from fleetlake.endpoints.model import Endpoint, Mode, Moved, Walk
from fleetlake.errors import ListShrank
from fleetlake.lake.absent import withheld_ids
from fleetlake.lake.connection import Lake
from fleetlake.lake.gaps import record_gaps
from fleetlake.lake.lateness import found_by_sweep
from fleetlake.lake.loads import Committed
from fleetlake.lake.watermarks import WHOLE_STREAM, LastRead, last_read, proven_intervals, watermark
from fleetlake.loading.run import Run
from fleetlake.loading.writer import Writer
from fleetlake.planning.coverage import (
    LIST_LIFE,
    SETTLE,
    Overlap,
    forgotten,
    needs_asking,
    overlap,
    still_to_read,
    sweep_from,
)
from fleetlake.planning.intervals import BEGINNING, Interval
from fleetlake.reading.pages import read_pages
from fleetlake.reading.walks import Reading, read_spans
from fleetlake.reading.windows import spans_of
from fleetlake.text.quoting import quoted

logger = logging.getLogger(__name__)


async def load_snapshot(run: Run, endpoint: Endpoint, writer: Writer) -> None:
    """Load a list that is read whole each time.

    A list paged by offset shifts when a record is deleted meanwhile, and one that is still
    there is skipped. So what seems to have gone from such a list is looked for once more. Any
    list that has lost much is read once more. Raises: ListShrank, with the rest committed, where
    too much is gone even so.
    """
    walks = await _walks_of_list(run, endpoint)
    readings = await _read_list(run, endpoint, walks)
    was_read_twice = False
    if endpoint.cursor.walk is Walk.OFFSET and any(not r.page.is_last for r in readings):
        known = await run.in_lake(partial(_current_keys, run.lake, run.profile, endpoint))
        if known - set().union(*(reading.page.keys(endpoint.key) for reading in readings)):
            readings += await _read_list(run, endpoint, walks)
            was_read_twice = True
    asked = walks if endpoint.fan_out else None
    try:
        await _keep_list(writer, readings, asked, may_ask_again=not was_read_twice)
    except ListShrank:
        readings += await _read_list(run, endpoint, walks)
        await _keep_list(writer, readings, asked, may_ask_again=False)
    for moved in _bulk_list_of(endpoint):
        pages = (reading.page for reading in readings)
        run.listed[endpoint.name] = frozenset(
            id_ for page in pages for (id_,) in page.keys([moved.id])
        )
    if writer.total.withheld:
        raise _shrunk(endpoint, run.profile, writer.total)


async def _keep_list(
    writer: Writer,
    readings: Sequence[Reading],
    asked: Sequence[tuple[int, ...]] | None,
    *,
    may_ask_again: bool,
) -> None:
    for reading in readings:
        await writer.write(reading)
    await writer.flush(is_whole=True, asked=asked, may_ask_again=may_ask_again)


def _shrunk(endpoint: Endpoint, profile: str, done: Committed) -> ListShrank:
    """Return the error of a list that has lost more than is believed."""
    whose = "" if profile == DEFAULT_PROFILE else f" --profile {profile}"
    return ListShrank(
        f"{stream_name(endpoint.name, profile)} no longer lists {done.withheld:,} of {done.of:,} "
        f"records. Their versions stay open; what the list does hold was loaded.",
        remedy="Check that the keys still see all of the account. If the records are gone for "
        f"good, run `fleetlake ingest {endpoint.name} --accept-shrunk {endpoint.name}{whose}`.",
    )


def _bulk_list_of(endpoint: Endpoint) -> list[Moved]:
    """Return for which fan-outs the endpoint is the list that tells what moved, at most once."""
    fan_outs = [other.fan_out for other in ENDPOINTS.values() if other.fan_out]
    return [f.moved for f in fan_outs if f.moved and f.moved.endpoint == endpoint.name][:1]


async def _walks_of_list(run: Run, endpoint: Endpoint) -> list[tuple[int, ...]]:
    """Return the ids that each walk of a list asks for; without a fan-out, one walk without."""
    if endpoint.fan_out is None:
        return [()]
    ids = await run.in_lake(partial(fan_out_ids, run.lake, run.profile, endpoint))
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
            run.client.clock.show(shown_by(endpoint, page))
            readings.append(Reading(page, partitions, None))
        return readings

    walks = await all_of(read_chunk(chunk) for chunk in chunks)
    return [reading for walk in walks for reading in walk]


def _current_keys(lake: Lake, profile: str, endpoint: Endpoint) -> set[tuple[Any, ...]]:
    """Return the keys of the records that were there at the last read."""
    listed = ", ".join(map(quoted, endpoint.key))
    current = "and valid_to is null" if endpoint.mode is Mode.HISTORY else ""
    return set(
        lake.rows(
            f"select {listed} from raw.{endpoint.name} where account_profile = ? {current}",
            [profile],
        )
    )


async def load_events(run: Run, endpoint: Endpoint, writer: Writer) -> None:
    """Load what is new or still missing of a stream ordered by event time."""
    plan = await run.in_lake(partial(_plan, run, endpoint, writer.seen_at))
    writer.overlap, writer.expired = plan.overlap, plan.expired
    writer.withheld = plan.withheld
    spans = spans_of(endpoint, plan.wanted)
    ends: LastRead | None = None
    try:
        async for reading in read_spans(run.client, endpoint, spans, walks=run.walks):
            run.watcher.on_page(endpoint.name, reading.page.count)
            run.client.clock.show(shown_by(endpoint, reading.page))
            await writer.write(reading)
        if plan.swept_at:
            ends = LastRead(
                shard=str(run.shard),
                unsettled=writer.unsettled,
                swept_at=plan.swept_at,
                wanted_from=plan.wanted_from,
            )
    finally:
        # Whatever ends the walk, what it brought and proved is kept.
        await writer.flush(ends=ends)
    # Only now: the service was asked for these ranges too, and may have held them longer.
    first = writer.first_expired
    record = partial(record_gaps, run.lake, run.profile, endpoint, plan.expired, first)
    run.lost[endpoint.name] = await run.in_lake(record)
    if plan.is_sweep:
        await run.in_lake(partial(_tell_of_sweep, run, endpoint, writer.unsettled))


def _tell_of_sweep(run: Run, endpoint: Endpoint, unsettled: Interval) -> None:
    """Log what the day's sweep found that the usual lookback had missed."""
    beyond = unsettled.end - unsettled.start + SETTLE
    if records := found_by_sweep(run.lake, run.run_id, endpoint.name, beyond=beyond):
        logger.warning(
            "The daily sweep of %s found %s records that came later than loads looked for; "
            "from now on they look further back.",
            endpoint.name,
            f"{records:,}",
        )


@dataclass(frozen=True)
class _Plan:
    """What to read by partition, and what of it the load before has read already.

    `expired` is what of it is older than the service's retention, by partition; `swept_at` is
    when the stream was swept last, once all is read. Of `withheld` ids nothing is proven.
    """

    wanted: list[tuple[int | None, Interval]]
    expired: dict[str, list[Interval]]
    overlap: Overlap | None
    swept_at: datetime | None = None
    wanted_from: datetime = BEGINNING
    is_sweep: bool = False
    withheld: frozenset[str] = frozenset()


def _plan(run: Run, endpoint: Endpoint, now: datetime) -> _Plan:
    """Return what a load of the stream reads."""
    with run.lake.single_snapshot():
        return _planned(run, endpoint, now)


def _planned(run: Run, endpoint: Endpoint, now: datetime) -> _Plan:
    proven = proven_intervals(run.lake, run.profile, endpoint)
    if endpoint.is_divisible:
        proven = {id_: proven[id_] for id_ in proven if run.shard.has(id_)}
    last = last_read(run.lake, run.profile, endpoint, str(run.shard))
    swept_at = last.swept_at if last else now
    wanted_from = last.wanted_from if last else BEGINNING
    swept_from = sweep_from(swept_at, proven.values(), now=now) if run.only is None else None
    changing = changing_since(run.lake, run.profile, endpoint)
    again_from = min(filter(None, (changing, swept_from)), default=None)
    asked = _ids_to_ask(run, endpoint, proven, now=now, is_sweep=swept_from is not None)
    wanted = [
        (partition, interval)
        for partition in asked
        for interval in still_to_read(
            proven.get(WHOLE_STREAM if partition is None else str(partition), []),
            now=now,
            since=run.since or wanted_from,
            again_from=again_from,
            only=run.only,
        )
    ]
    expired = _expired(endpoint, proven, wanted, now=now)
    withheld = _withheld(run, endpoint)
    if run.only is not None:
        # What somebody chose to read again may never have been read: it measures nothing.
        return _Plan(wanted, expired, None, withheld=withheld)
    unsettled = last.unsettled if last else None
    again = overlap(proven, unsettled, swept_from=swept_from) if unsettled else None
    is_sweep = swept_from is not None
    swept = now if is_sweep else swept_at
    return _Plan(wanted, expired, again, swept, wanted_from, is_sweep, withheld)


def _withheld(run: Run, endpoint: Endpoint) -> frozenset[str]:
    """Return the ids of a fan-out that this account may not see now, so that nothing is proven."""
    if endpoint.fan_out is None:
        return frozenset()
    return frozenset(withheld_ids(run.lake, run.profile, endpoint.fan_out.source))


def _expired(
    endpoint: Endpoint,
    proven: dict[str, list[Interval]],
    wanted: Sequence[tuple[int | None, Interval]],
    *,
    now: datetime,
) -> dict[str, list[Interval]]:
    """Return by partition what is to be read though the service should have forgotten it."""
    expired: dict[str, list[Interval]] = {}
    if endpoint.retention is None:
        return expired
    for partition, interval in wanted:
        key = WHOLE_STREAM if partition is None else str(partition)
        for old in forgotten(proven.get(key, []), now=now, retention=endpoint.retention):
            start, end = max(old.start, interval.start), min(old.end, interval.end)
            if start < end:
                expired.setdefault(key, []).append(Interval(start, end))
    return expired


def _ids_to_ask(
    run: Run,
    endpoint: Endpoint,
    proven: dict[str, list[Interval]],
    *,
    now: datetime,
    is_sweep: bool,
) -> Sequence[int | None]:
    """Return the shard's ids that may have anything new; all without a fresh bulk list."""
    if endpoint.fan_out is None:
        return [None]
    ids = [one for one in fan_out_ids(run.lake, run.profile, endpoint) if run.shard.has(one)]
    moved = endpoint.fan_out.moved
    is_told = moved is not None and _is_fresh(run, ENDPOINTS[moved.endpoint], now)
    if moved is None or not is_told or is_sweep or run.only is not None:
        return ids
    moved_at = dict(
        run.lake.rows(f"select {quoted(moved.id)}, {quoted(moved.at)} from raw.{moved.endpoint}")
    )
    # Of an id that the list no longer holds, the lake only knows where it last was.
    listed = run.listed.get(moved.endpoint, moved_at.keys())
    asked = [
        one
        for one in ids
        if one not in listed or needs_asking(proven.get(str(one), []), moved_at=moved_at.get(one))
    ]
    run.spared[endpoint.name] = len(ids) - len(asked)
    return asked


def _is_fresh(run: Run, bulk: Endpoint, now: datetime) -> bool:
    """Return whether a bulk list was loaded in this run, or for a shard, not long before it."""
    if run.shard.is_whole or run.is_fresh(bulk.name):
        return run.is_fresh(bulk.name)
    read_at = watermark(run.lake, run.profile, bulk)
    return read_at is not None and now - read_at <= LIST_LIFE


def fan_out_ids(lake: Lake, profile: str, endpoint: Endpoint) -> list[int]:
    """Return the ids that the endpoint must be asked for, those that exist now."""
    if endpoint.fan_out is None:
        return []
    source = ENDPOINTS[endpoint.fan_out.source]
    now = "and valid_to is null" if source.mode is Mode.HISTORY else ""
    found = lake.rows(
        f"select {quoted(source.key[0])} from raw.{source.name} "
        f"where account_profile = ? {now} order by 1",
        [profile],
    )
    return [row[0] for row in found]


def changing_since(lake: Lake, profile: str, endpoint: Endpoint) -> datetime | None:
    """Return the event time of the oldest record that may still change."""
    if endpoint.changes_until is None:
        return None
    [(oldest,)] = lake.rows(
        f"select min({quoted(str(endpoint.event_time))}) from raw.{endpoint.name} "
        f"where {quoted(str(endpoint.changes_until))} is null and account_profile = ?",
        [profile],
    )
    moment: datetime | None = oldest
    return moment
