"""Reading the pages of one walk, from its first request to its end."""

from collections.abc import AsyncIterator, Sequence
from functools import partial

from fleetlake.decoding.arrow import Page, read_page, stamp
from fleetlake.endpoints.model import Api, Endpoint
from fleetlake.errors import CursorStuck
from fleetlake.planning.intervals import Interval
from fleetlake.reading.cursors import first_position, mark_of, next_position, window_parameters
from fleetlake.service.client import Client

MAX_EMPTY_PAGES = 100
"""Maximum number of consecutive empty pages that link to a next page."""


async def read_pages(
    client: Client,
    endpoint: Endpoint,
    *,
    interval: Interval | None = None,
    partitions: Sequence[int | str] = (),
) -> AsyncIterator[Page]:
    """Yield the pages of one walk, in the service's order, including the last.

    `interval` limits the event time; `partitions` are the ids of a fan-out, as many as one call
    takes. The iterator ends only where the service says so. Raises: ServiceError for a page that
    fails permanently, CursorStuck for too many empty pages. Pages already yielded stay valid.
    """
    size = "limit" if endpoint.api is Api.V2 else "page[size]"
    if endpoint.service:
        size = endpoint.service.page_size_parameter
    fixed = {size: str(endpoint.page_size), **endpoint.parameters}
    if endpoint.window and interval:
        kind = endpoint.column(str(endpoint.window_column)).kind
        fixed |= window_parameters(endpoint.window, interval, kind=kind)
    if endpoint.fan_out:
        fixed[endpoint.fan_out.parameter] = ",".join(map(str, partitions))
    expires_at = interval.start + endpoint.retention if interval and endpoint.retention else None
    position: dict[str, str] | None = first_position(endpoint)
    seen: list[str] = []
    empty = 0
    while position is not None:
        if position:
            seen.append(mark_of(endpoint, position))
        page = await client.get(
            endpoint.path,
            fixed | position,
            partial(read_page, endpoint),
            api=endpoint.api,
            counted_as=endpoint.counted_as,
            expires_at=expires_at,
            service=endpoint.service,
        )
        position = next_position(endpoint, page, seen, redact=client.without_keys)
        empty = 0 if page.count else empty + 1
        if position is not None and empty > MAX_EMPTY_PAGES:
            raise CursorStuck(
                f"{endpoint.path} returned {empty} empty pages in a row, each with a next one.",
                remedy="The read was stopped because it might never end. Run again, and report it "
                "if it persists.",
            )
        yield stamp(endpoint, page, partitions[0]) if partitions else page
