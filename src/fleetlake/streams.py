"""Reading and keeping one stream: a snapshot whole, or events from where the last read ended."""

from datetime import datetime
from functools import partial

from fleetlake.endpoint import Endpoint, Mode
from fleetlake.endpoints import ENDPOINTS
from fleetlake.intervals import Interval
from fleetlake.lake.catalog import Lake
from fleetlake.lake.watermarks import WHOLE_STREAM, proven_intervals
from fleetlake.pages import read_pages
from fleetlake.plan import still_to_read
from fleetlake.reading import Reading, read_spans
from fleetlake.run import Run
from fleetlake.tasks import all_of
from fleetlake.windows import spans_of
from fleetlake.writer import Writer


async def load_snapshot(run: Run, endpoint: Endpoint, writer: Writer) -> None:
    """Load a list that is read whole each time."""
    size = endpoint.fan_out.ids_per_call if endpoint.fan_out else 1
    ids = await run.in_lake(partial(_fan_out_ids, run.lake, endpoint))
    chunks = [tuple(ids[i : i + size]) for i in range(0, len(ids), size)]

    async def read_chunk(partitions: tuple[int, ...]) -> list[Reading]:
        readings = []
        async for page in read_pages(run.client, endpoint, partitions=partitions):
            run.watcher.on_page(endpoint.name, page.count)
            readings.append(Reading(page, partitions, None))
        return readings

    for readings in await all_of(read_chunk(chunk) for chunk in chunks or [()]):
        for reading in readings:
            await writer.write(reading)
    await writer.flush(is_whole=True)


async def load_events(run: Run, endpoint: Endpoint, writer: Writer) -> None:
    """Load what is new or still missing of a stream ordered by event time."""
    wanted = await run.in_lake(partial(_wanted, run, endpoint, await run.now()))
    spans = spans_of(endpoint, wanted)
    try:
        async for reading in read_spans(run.client, endpoint, spans, walks=run.walks):
            run.watcher.on_page(endpoint.name, reading.page.count)
            await writer.write(reading)
    finally:
        # Whatever ends the walk, what it brought and proved is kept.
        await writer.flush()


def _wanted(run: Run, endpoint: Endpoint, now: datetime) -> list[tuple[int | None, Interval]]:
    """Return the ranges to read by partition."""
    proven = proven_intervals(run.lake, run.profile, endpoint)
    changing = _changing_since(run.lake, endpoint)
    partitions: list[int | None] = (
        list(_fan_out_ids(run.lake, endpoint)) if endpoint.fan_out else [None]
    )
    return [
        (partition, interval)
        for partition in partitions
        for interval in still_to_read(
            proven.get(WHOLE_STREAM if partition is None else str(partition), []),
            now=now,
            since=run.since,
            changing_since=changing,
        )
    ]


def _fan_out_ids(lake: Lake, endpoint: Endpoint) -> list[int]:
    """Return the ids that the endpoint must be asked for, those that exist now."""
    if endpoint.fan_out is None:
        return []
    source = ENDPOINTS[endpoint.fan_out.source]
    now = "where valid_to is null" if source.mode is Mode.HISTORY else ""
    found = lake.rows(f'select "{source.key[0]}" from raw.{source.name} {now} order by 1')
    return [row[0] for row in found]


def _changing_since(lake: Lake, endpoint: Endpoint) -> datetime | None:
    """Return the event time of the oldest record that may still change."""
    if endpoint.changes_until is None:
        return None
    [(oldest,)] = lake.rows(
        f'select min("{endpoint.event_time}") from raw.{endpoint.name} '
        f'where "{endpoint.changes_until}" is null'
    )
    moment: datetime | None = oldest
    return moment
