"""Compare a range of the service with the lake: is any record missing?"""

import asyncio
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import httpx
import pyarrow as pa

from fleetlake.decoding.arrow import Page
from fleetlake.endpoints import endpoint_named, require_requested
from fleetlake.lake import Lake, open_lake
from fleetlake.lake.current import current_keys, fan_out_ids
from fleetlake.lake.lateness import measured_lateness
from fleetlake.lake.suppression import Suppression, read_suppression
from fleetlake.lake.watermarks import proven_intervals
from fleetlake.loading.run import service_now
from fleetlake.planning.coverage import unsettled
from fleetlake.planning.intervals import Interval
from fleetlake.reading.pages import read_pages
from fleetlake.reading.walks import read_spans
from fleetlake.reading.windows import spans_of
from fleetlake.service.client import Client
from fleetlake.settings import Settings

Key = tuple[Any, ...]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The result of a comparison by key; `interval` is None if a whole list was compared.

    `missing` keys are only at the service. `surplus` keys are only in the lake: their records
    expired or were deleted at the service.
    """

    endpoint: str
    interval: Interval | None
    served: int
    missing: frozenset[Key]
    surplus: frozenset[Key]
    calls: int


def verify(
    settings: Settings,
    name: str,
    *,
    start: datetime,
    end: datetime | None = None,
    transport: httpx.AsyncBaseTransport | None = None,
) -> Comparison:
    """Compare the keys that the service lists in a range with those in the lake.

    The range ends at `end`, or earlier where late records may still arrive or, in a list that is
    read device by device, where a device has not been asked since. It begins where the lake's
    retention does, and nothing erased counts as missing. Nothing is written.
    Raises: ServiceError if a page fails, LakeError, UsageError.
    """
    endpoint = endpoint_named(name)
    require_requested([endpoint])

    async def ask(lake: Lake) -> Comparison:
        async with Client(settings, transport=transport) as client:
            now = await service_now(client)
            lateness = measured_lateness(lake, settings.profile, now=now).get(name)
            latest = unsettled(now, lateness).start
            ids = fan_out_ids(lake, settings.profile, endpoint)
            proven = proven_intervals(lake, settings.profile, endpoint)
            asked = [ranges[-1].end for one in ids if (ranges := proven.get(str(one)))]
            until = min(end or latest, latest, *asked)
            suppression = read_suppression(lake, endpoint)
            interval = Interval(min(max(start, suppression.kept_from or start), until), until)
            served = await _served(client, suppression, ids, interval, settings.concurrency)
            held = current_keys(lake, endpoint, within=interval)
            own = current_keys(lake, endpoint, profile=settings.profile, within=interval)
            return Comparison(
                endpoint=name,
                interval=None if endpoint.is_snapshot else interval,
                served=len(served),
                missing=frozenset(served - held),
                surplus=frozenset(own - served),
                calls=client.calls[endpoint.counted_as],
            )

    with open_lake(settings.lake, read_only=True) as lake:
        return asyncio.run(ask(lake))


async def _served(
    client: Client, suppression: Suppression, ids: list[Any], interval: Interval, walks: int
) -> set[Key]:
    """Return the keys that the service lists, without those that the lake must not hold."""
    endpoint, keys = suppression.endpoint, set[Key]()

    def note(page: Page) -> None:
        rows = suppression.admitted(pa.Table.from_batches([page.rows]))
        keys.update(zip(*(rows[name].to_pylist() for name in endpoint.key), strict=True))

    if not endpoint.is_snapshot:
        partitions: list[int | None] = [*ids] if endpoint.fan_out else [None]
        wanted = [(partition, interval) for partition in partitions]
        async for reading in read_spans(client, endpoint, spans_of(endpoint, wanted), walks=walks):
            note(reading.page)
        return keys
    size = endpoint.fan_out.ids_per_call if endpoint.fan_out else 1
    chunks = [ids[i : i + size] for i in range(0, len(ids), size)] if endpoint.fan_out else [[]]
    for chunk in chunks:
        async for page in read_pages(client, endpoint, partitions=chunk):
            note(page)
    return keys
