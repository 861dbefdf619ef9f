"""Reading the pages of one walk, from its first request to its end.

A walk ends only where the service says so: with a `next` that is null or, for pages ordered by id,
with a page that is not full. A position seen twice would loop forever, so it is an error, never an
end.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from urllib.parse import urlencode

from fleetlake.decoding.arrow import Page, read_page, stamp
from fleetlake.decoding.timeuuid import embedded_ticks, smallest_at
from fleetlake.endpoints import own_lists
from fleetlake.endpoints.columns import Kind
from fleetlake.endpoints.list_definitions import Defined
from fleetlake.endpoints.model import Api, Cursor, Endpoint, Walk, WindowFilters
from fleetlake.errors import CursorStuck, PageUnreadable, SettingsError
from fleetlake.planning.intervals import BEGINNING, Interval
from fleetlake.service.client import Client
from fleetlake.text.plain import one_line

_MICROSECOND = timedelta(microseconds=1)


def first_position(endpoint: Endpoint) -> dict[str, str]:
    """Return the cursor parameter of a walk's first request, if it takes one."""
    return {endpoint.cursor.parameter: "0"} if endpoint.cursor.walk is Walk.ID_AFTER else {}


def next_position(
    endpoint: Endpoint, page: Page, seen: list[str], *, redact: Callable[[str], str] = str
) -> dict[str, str] | None:
    """Return the cursor parameter that requests the next page, or None at the end.

    `seen` holds the values that the walk has used, oldest first. A link may echo a key: `redact`
    removes keys from text quoted in a message, before the text is cut. Raises: CursorStuck for a
    value that does not advance, PageUnreadable for a `next` without the cursor.
    """
    cursor = endpoint.cursor
    by_id = cursor.walk is Walk.ID_AFTER
    if cursor.walk is Walk.LINK or (by_id and not page.count):
        return _next_link(endpoint, page, seen)
    value = _highest_id(endpoint, page) if by_id else _linked(endpoint, page)
    if value is None:
        return None
    shown = f"{cursor.parameter}={one_line(redact(value))}"
    try:
        before = [mark for mark in seen if "=" not in mark]  # a whole query is not a position
        moves_on = value not in seen and _moves_on(cursor, before[-1] if before else None, value)
    except ValueError:
        raise PageUnreadable(
            f"{endpoint.path} links to the page position {shown}, which is not valid.",
            remedy="The service pages in a way that this version does not know: report it.",
        ) from None
    if not moves_on:
        raise CursorStuck(
            f"{endpoint.path} returned the page position {shown} again.",
            remedy="The read was stopped so that it cannot loop. Run again, and report it "
            "if it persists.",
        )
    return {cursor.parameter: value}


def mark_of(endpoint: Endpoint, position: Mapping[str, str]) -> str:
    """Return the text that identifies a position: the cursor's value, or a link's whole query."""
    if position.keys() == {endpoint.cursor.parameter}:
        return position[endpoint.cursor.parameter]
    return urlencode(sorted(position.items()))


def _next_link(endpoint: Endpoint, page: Page, seen: list[str]) -> dict[str, str] | None:
    """Return the query of the link to the next page. Raises: CursorStuck, PageUnreadable."""
    if page.next is None:
        return None
    if not page.next:
        raise PageUnreadable(
            f"{endpoint.path} links to a next page without a query.",
            remedy="The service pages in a way that this version does not know: report it.",
        )
    if mark_of(endpoint, page.next) in seen:
        raise CursorStuck(
            f"{endpoint.path} links to a page that it has already returned.",
            remedy="The read was stopped so that it cannot loop. Run again, and report it "
            "if it persists.",
        )
    return dict(page.next)


def window_parameters(
    window: WindowFilters, interval: Interval, *, kind: Kind = Kind.TIME
) -> dict[str, str]:
    """Return the filters for the half-open interval, whichever bounds their operators include.

    `kind` is that of the time that they compare.

    >>> from datetime import UTC
    >>> day = Interval(datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC))
    >>> window_parameters(WindowFilters(start="created_at__gt", end="created_at__lt"), day)
    {'created_at__gt': '2025-12-31T23:59:59.999999+00:00', \
'created_at__lt': '2026-01-02T00:00:00.000000+00:00'}
    """
    parameters = {}
    if interval.start != BEGINNING:
        start = interval.start - _MICROSECOND * window.is_start_excluded
        parameters[window.start] = _bound(window.start, start, kind, is_end=False)
    end = interval.end - _MICROSECOND * window.is_end_included
    parameters[window.end] = _bound(window.end, end, kind, is_end=True)
    return parameters


def _bound(parameter: str, instant: datetime, kind: Kind, *, is_end: bool) -> str:
    """Return the value of a filter.

    Services that count seconds or milliseconds take whole ones, so the window is widened to them:
    a record outside it is known by its key.
    """
    if "timeuuid" in parameter:
        return smallest_at(instant)
    if kind in _UNITS:
        whole, part = divmod(instant - _EPOCH, _UNITS[kind])
        return str(whole + (is_end and bool(part)))
    return instant.isoformat(timespec="microseconds")


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS = {Kind.EPOCH_S: timedelta(seconds=1), Kind.EPOCH_MS: timedelta(milliseconds=1)}


def _highest_id(endpoint: Endpoint, page: Page) -> str | None:
    """Return the id after which the next page starts.

    The last page is not full and has no link. A page that is not full but has a link is not the
    last: a service may use a smaller page size than the limit it reports. An empty page has no id:
    the walk follows its link.
    """
    if page.is_last and page.count < min(page.limit, endpoint.page_size):
        return None
    ids = [page.value(name, -1) for name in endpoint.key]
    if None in ids:
        raise CursorStuck(
            f"{endpoint.path} returned a page of {page.count} records without a readable id.",
            remedy="The records are in quarantine; report them.",
        )
    return str(ids[0])


def _linked(endpoint: Endpoint, page: Page) -> str | None:
    """Return the cursor value in the page's link to the next one."""
    if page.next is None:
        return None
    if endpoint.cursor.parameter not in page.next:
        raise PageUnreadable(
            f"{endpoint.path} links to a next page without {endpoint.cursor.parameter}.",
            remedy="The service pages in a way that this version does not know: report it.",
        )
    return page.next[endpoint.cursor.parameter]


def _moves_on(cursor: Cursor, before: str | None, value: str) -> bool:
    """Return whether a value lies after the previous one, in the walk's direction.

    Raises: ValueError if the value is not a position.
    """
    if cursor.walk is Walk.ACTION_ID:
        return value != before
    if cursor.walk is not Walk.TIMEUUID:
        return int(value) > int(before or -1)
    now = embedded_ticks(value)
    if before is None:
        return True
    # Two records may share an instant, so equal times are allowed.
    then = embedded_ticks(before)
    return now <= then if cursor.is_newest_first else now >= then


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
        if own := own_lists().get(endpoint.name):
            _require_distinct(own, page)
        position = next_position(endpoint, page, seen, redact=client.without_keys)
        empty = 0 if page.count else empty + 1
        if position is not None and empty > MAX_EMPTY_PAGES:
            raise CursorStuck(
                f"{endpoint.path} returned {empty} empty pages in a row, each with a next one.",
                remedy="The read was stopped because it might never end. Run again, and report it "
                "if it persists.",
            )
        yield stamp(endpoint, page, partitions[0]) if partitions else page


def _require_distinct(own: Defined, page: Page) -> None:
    """Require records of a page that differ to have different keys: one would replace the other.

    Only the key of a list that a project describes may be wrong. Raises: SettingsError.
    """
    key = [name for name in own.endpoint.key if name in page.rows.schema.names]
    records = page.rows.to_pylist()
    distinct = {*map(str, records)}
    if len({tuple(map(str, map(record.get, key))) for record in records}) < len(distinct):
        raise SettingsError(
            f"{own.file}:{own.line}: {own.endpoint.name} has different records with the same "
            f"{', '.join(own.endpoint.key)}.",
            remedy="Name more columns in its key. If rows were loaded with this one, give the list "
            "another name, which starts a new table.",
        )
