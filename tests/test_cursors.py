"""The next request after a page: forwards only, and no end unless the service says so."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetlake.decoding.arrow import Page, read_page
from fleetlake.decoding.timeuuid import embedded_time, smallest_at
from fleetlake.endpoints import ENDPOINTS
from fleetlake.endpoints.model import Endpoint, Walk
from fleetlake.errors import CursorStuck, PageUnreadable
from fleetlake.planning.intervals import BEGINNING, Interval
from fleetlake.reading.pages import next_position, read_pages, window_parameters
from fleetlake.service.client import Client
from fleetlake.settings import Settings
from fleetlake.text.plain import MAX_QUOTED
from tests.support.cases import REQUESTED
from tests.support.sim import KEYS

NOON = datetime(2026, 6, 15, 12, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
BY_ID = [e for e in ENDPOINTS.values() if e.cursor.walk is Walk.ID_AFTER]
LINKED = [
    e for e in ENDPOINTS.values() if e.cursor.walk in {Walk.OFFSET, Walk.ACTION_ID, Walk.TIMEUUID}
]
WINDOWED = [e for e in ENDPOINTS.values() if e.window]


def rows(endpoints: list[Endpoint]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("endpoint", endpoints, ids=lambda one: one.name)


def page_of(
    endpoint: Endpoint, records: list[dict[str, Any]], *, limit: int, link: str | None = None
) -> Page:
    answer = {"data": records, "meta": {"limit": limit, "next": link}}
    return read_page(endpoint, json.dumps(answer).encode())


def ids(first: int, last: int) -> list[dict[str, Any]]:
    return [{"id": str(number)} for number in range(first, last + 1)]


def position(endpoint: Endpoint, step: int) -> str:
    """Return the cursor value of a walk's step."""
    if endpoint.cursor.walk is Walk.OFFSET:
        return str(step * endpoint.page_size)
    if endpoint.cursor.walk is Walk.ACTION_ID:
        return f"action-{9 - step}"
    direction = -1 if endpoint.cursor.is_newest_first else 1
    return smallest_at(NOON + direction * timedelta(minutes=step))


def linking(endpoint: Endpoint, value: str) -> Page:
    """Return a page that links to the position."""
    link = f"https://us0.svc.example/api/v2/{endpoint.path}?limit=500&{endpoint.cursor.parameter}"
    return page_of(endpoint, [], limit=500, link=f"{link}={value}")


@rows(BY_ID)
def test_an_id_walk_continues_from_the_last_id_of_a_full_page(endpoint):
    page = page_of(endpoint, ids(11, 20), limit=10)

    assert next_position(endpoint, page, ["10"]) == {"id__gt": "20"}


@rows(BY_ID)
def test_an_id_walk_ends_at_a_page_that_is_not_full(endpoint):
    assert next_position(endpoint, page_of(endpoint, ids(11, 19), limit=10), ["10"]) is None
    assert next_position(endpoint, page_of(endpoint, [], limit=10), ["10"]) is None


@rows(BY_ID)
def test_a_page_is_full_by_the_limit_that_the_service_applied_not_the_requested_one(endpoint):
    page = page_of(endpoint, ids(1, 20), limit=20)

    assert endpoint.page_size > 20
    assert next_position(endpoint, page, ["0"]) == {"id__gt": "20"}


@rows(BY_ID)
def test_a_page_is_full_by_the_requested_limit_if_the_service_names_a_larger_one(endpoint):
    page = page_of(endpoint, ids(1, endpoint.page_size), limit=100_000)

    assert next_position(endpoint, page, ["0"]) == {"id__gt": str(endpoint.page_size)}


@rows(BY_ID)
def test_a_short_page_with_a_next_link_is_not_the_last(endpoint):
    link = f"https://h/api/v2/{endpoint.path}?id__gt=20&limit=500"

    page = page_of(endpoint, ids(11, 20), limit=500, link=link)

    assert next_position(endpoint, page, ["10"]) == {"id__gt": "20"}


@rows(BY_ID)
@pytest.mark.parametrize(
    "query", ["offset=500", "id__gt=0&limit=500&offset=0", "id__gt=7&limit=500"]
)
def test_an_id_walk_follows_the_link_of_an_empty_page_and_then_goes_on_by_id(endpoint, query):
    asked: list[dict[str, str]] = []
    full = [{"id": str(number)} for number in range(11, 11 + endpoint.page_size)]
    pages = [
        ([], f"https://h/x?{query}"),
        ([], f"https://h/x?{query}&part=2"),
        (full, None),
        ([], ""),
    ]

    class Service:
        without_keys = str

        async def get(self, _path, parameters, read, **_):
            asked.append({k: v for k, v in parameters.items() if k != "limit"})
            records, link = pages[len(asked) - 1]
            return read(
                json.dumps({"data": records, "meta": {"limit": 500, "next": link}}).encode()
            )

    async def walk() -> int:
        return sum([page.count async for page in read_pages(Service(), endpoint)])

    assert asyncio.run(walk()) == endpoint.page_size
    assert asked[0]["id__gt"] == "0"
    assert query.rpartition("&")[2].split("=")[0] in {*asked[1], "limit"}
    assert asked[3]["id__gt"] == str(10 + endpoint.page_size)


@rows(BY_ID + LINKED)
@pytest.mark.parametrize("records", [0, 3])
def test_an_empty_text_as_the_link_means_that_there_is_no_next_page(endpoint, records):
    page = page_of(endpoint, ids(1, records), limit=500, link="")

    assert next_position(endpoint, page, []) is None


@rows(LINKED)
def test_a_link_that_repeats_the_position_means_the_last_one(endpoint):
    name = endpoint.cursor.parameter

    page = linking(endpoint, f"{position(endpoint, 1)}&{name}={position(endpoint, 2)}")

    assert next_position(endpoint, page, []) == {name: position(endpoint, 2)}


@rows(BY_ID)
def test_misfits_count_towards_a_full_page(endpoint):
    page = page_of(endpoint, [{"id": "x"}, *ids(2, 10)], limit=10)

    assert next_position(endpoint, page, ["0"]) == {"id__gt": "10"}


@rows(BY_ID)
def test_a_full_page_without_a_readable_id_is_an_error_not_an_end(endpoint):
    page = page_of(endpoint, [{"id": "x"}] * 10, limit=10)

    with pytest.raises(CursorStuck, match="10 records"):
        next_position(endpoint, page, ["0"])


@rows(BY_ID)
@pytest.mark.parametrize("seen", [["20"], ["21"], ["20", "15"]])
def test_an_id_walk_that_does_not_advance_is_an_error(endpoint, seen):
    page = page_of(endpoint, ids(11, 20), limit=10)

    with pytest.raises(CursorStuck, match="id__gt=20"):
        next_position(endpoint, page, seen)


@rows(LINKED)
def test_a_linked_walk_follows_the_services_own_position(endpoint):
    seen: list[str] = []
    for step in (1, 2, 3):
        value = position(endpoint, step)

        assert next_position(endpoint, linking(endpoint, value), seen) == {
            endpoint.cursor.parameter: value
        }

        seen.append(value)


@rows(LINKED)
def test_a_linked_walk_ends_only_at_a_page_without_a_link(endpoint):
    assert next_position(endpoint, page_of(endpoint, [], limit=500), []) is None
    assert next_position(endpoint, linking(endpoint, position(endpoint, 1)), []) is not None


@rows(LINKED)
@pytest.mark.parametrize("seen", [[1], [1, 2], [2, 1]])
def test_a_position_seen_before_is_an_error_not_an_end(endpoint, seen):
    values = [position(endpoint, step) for step in seen]

    with pytest.raises(CursorStuck, match="again"):
        next_position(endpoint, linking(endpoint, position(endpoint, 1)), values)


@rows([e for e in LINKED if e.cursor.walk is not Walk.ACTION_ID])
def test_a_position_that_moves_backwards_is_an_error(endpoint):
    with pytest.raises(CursorStuck):
        next_position(endpoint, linking(endpoint, position(endpoint, 1)), [position(endpoint, 2)])


@rows([e for e in LINKED if e.cursor.walk is Walk.OFFSET])
def test_a_position_seen_before_in_another_spelling_is_an_error(endpoint):
    with pytest.raises(CursorStuck):
        next_position(endpoint, linking(endpoint, "0500"), ["500"])


@rows([e for e in LINKED if e.cursor.walk is Walk.TIMEUUID])
def test_two_positions_may_share_an_instant(endpoint):
    first = smallest_at(NOON)
    second = first[:-1] + "1"

    assert next_position(endpoint, linking(endpoint, second), [first]) is not None


@rows([e for e in LINKED if e.cursor.walk is not Walk.ACTION_ID])
@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("value", ["junk", "1.5", "-1", str(UUID(int=0))])
def test_an_invalid_position_is_an_error_of_the_service(endpoint, value, is_first):
    seen = [] if is_first else [position(endpoint, 1)]

    with pytest.raises((PageUnreadable, CursorStuck)):
        next_position(endpoint, linking(endpoint, value), seen)


@rows(LINKED)
@pytest.mark.parametrize("query", ["", "limit=500", "page=2", "cursor="])
def test_a_link_without_the_walks_parameter_is_an_error_not_an_end(endpoint, query):
    page = page_of(endpoint, [], limit=500, link=f"https://h/api/v2/{endpoint.path}?{query}")

    with pytest.raises(PageUnreadable, match=endpoint.cursor.parameter):
        next_position(endpoint, page, [])


def takes(parameter: str, value: str, instant: datetime) -> bool:
    """Return whether, by the contract, the service's filter selects a record of this time."""
    bound = embedded_time(value) if "timeuuid" in parameter else datetime.fromisoformat(value)
    operator = parameter.rsplit("__", 1)[1]
    return {
        "gt": instant > bound,
        "gte": instant >= bound,
        "lt": instant < bound,
        "lte": instant <= bound,
    }[operator]


@pytest.mark.parametrize("endpoint", WINDOWED, ids=lambda e: e.name)
@given(start=st.integers(0, 10**9), length=st.integers(1, 10**9), shift=st.sampled_from([-1, 0, 1]))
def test_a_windows_filters_include_the_start_and_exclude_the_end(endpoint, start, length, shift):
    interval = Interval(NOON + start * MICROSECOND, NOON + (start + length) * MICROSECOND)

    filters = window_parameters(endpoint.window, interval)

    for edge in (interval.start, interval.end):
        instant = edge + shift * MICROSECOND
        taken = all(takes(name, value, instant) for name, value in filters.items())
        assert taken == (interval.start <= instant < interval.end)


@rows(WINDOWED)
def test_a_window_from_the_beginning_has_no_lower_bound(endpoint):
    filters = window_parameters(endpoint.window, Interval(BEGINNING, NOON))

    assert list(filters) == [endpoint.window.end]


BY_LINK = [e for e in REQUESTED.values() if not e.path.endswith("/")]


def linked(endpoint: Endpoint, link: str | None) -> Page:
    """Return a page of v3 with an optional link."""
    links = {} if link is None else {"next": link}
    return read_page(endpoint, json.dumps({"data": [], "links": links, "meta": {}}).encode())


@rows(BY_LINK)
def test_a_walk_by_links_uses_their_whole_query_and_ends_without_a_link(endpoint):
    link = "https://elsewhere.example/api/v3/x?page[size]=50&page[cursor]=a%2Bb"

    assert next_position(endpoint, linked(endpoint, link), []) == {
        "page[size]": "50",
        "page[cursor]": "a+b",
    }
    assert next_position(endpoint, linked(endpoint, None), []) is None
    assert next_position(endpoint, linked(endpoint, ""), []) is None


@rows(BY_LINK)
@pytest.mark.parametrize(
    "links",
    [
        ["https://h/x?page[cursor]=a"] * 3,
        ["https://h/x?page[cursor]=a&page[size]=50"] * 3,
        ["https://h/x?page[cursor]=a", "https://h/x?page[cursor]=b"] * 2,
        ["https://h/x"] * 3,
    ],
)
def test_a_walk_by_links_that_form_a_loop_is_an_error(endpoint, links):
    class Circle:
        asked = 0
        without_keys = str

        async def get(self, _path, _parameters, read, **_):
            self.asked += 1
            answer = {"data": [], "links": {"next": links[self.asked % len(links)]}}
            assert self.asked < 10, "it loops"
            return read(json.dumps(answer).encode())

    async def walk() -> None:
        async for _ in read_pages(Circle(), endpoint):
            pass

    with pytest.raises((CursorStuck, PageUnreadable)):
        asyncio.run(walk())


@rows([ENDPOINTS["users"], ENDPOINTS["subscriptions"], ENDPOINTS["routers"]])
@pytest.mark.parametrize("empty", [100, 10_000])
def test_endless_linked_empty_pages_are_an_error(endpoint, empty):
    """`empty` pages have no records; the page after them is the last."""

    class Endless:
        asked = 0
        without_keys = str

        async def get(self, _path, _parameters, read, **_):
            self.asked += 1
            more = f"https://h/x?offset={self.asked}" if self.asked <= empty else None
            rest = {"meta": {"limit": 500, "next": more}, "links": {"next": more}}
            return read(json.dumps({"data": [], **rest}).encode())

    service = Endless()

    async def walk() -> int:
        return len([page async for page in read_pages(service, endpoint)])

    if empty == 100:
        assert asyncio.run(walk()) == 101
    else:
        with pytest.raises(CursorStuck, match="101 empty pages"):
            asyncio.run(walk())
        assert service.asked == 101


@rows(LINKED)
def test_a_position_is_quoted_on_one_short_line(endpoint):
    forged = "x%0d%0aWhat to do: run y%1b[2J" + "!" * 500
    page = linking(endpoint, forged)
    seen = list(page.next.values())[-1:] if page.next else []

    with pytest.raises((CursorStuck, PageUnreadable)) as failure:
        next_position(endpoint, page, seen)

    assert failure.value.what.splitlines() == [failure.value.what]
    assert len(failure.value.what) < 400


@rows([e for e in LINKED if e.cursor.walk in {Walk.OFFSET, Walk.TIMEUUID}])
def test_a_key_echoed_in_a_link_is_masked_even_if_the_quotation_is_cut(endpoint):
    settings = Settings(_env_file=None, base_url="https://svc.example/api/v2", **KEYS)
    key = KEYS["mgr_api_key"]
    echo = f"{'x' * (MAX_QUOTED - len(key) // 2 - 1)} {key}\x1b[2J"
    link = f"https://h/?{urlencode({endpoint.cursor.parameter: echo})}"
    answer = {"data": [], "meta": {"limit": 500, "next": link}}

    async def walk() -> None:
        transport = httpx.MockTransport(lambda _request: httpx.Response(200, json=answer))
        async with Client(settings, transport=transport) as client:
            async for _ in read_pages(client, endpoint, partitions=[1] if endpoint.fan_out else []):
                pass

    with pytest.raises(PageUnreadable) as failure:
        asyncio.run(walk())

    assert key[: len(key) // 2] not in failure.value.what
    assert "***" in failure.value.what
    assert failure.value.what.isprintable()


def test_a_link_that_is_not_an_address_is_not_quoted():
    endpoint = LINKED[0]
    answer = {"data": [], "meta": {"limit": 500, "next": "https://a\u2100key-7788/?x=1"}}

    with pytest.raises(PageUnreadable, match="is not a valid address") as failure:
        read_page(endpoint, json.dumps(answer).encode())

    assert "key-7788" not in failure.value.what
