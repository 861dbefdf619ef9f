"""Pages to Arrow: types, times, links, and ids that come from the call."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from fleetlake.decoding.arrow import EXTRA, event_at, read_page, schema_of, stamp
from fleetlake.endpoints import ENDPOINTS
from fleetlake.endpoints.model import Endpoint

ALERTS, FIXES = ENDPOINTS["alerts"], ENDPOINTS["historical_locations"]
NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)
NEW_YEAR_UUID = "d0c3c000-e6a4-11f0-8080-808080808080"


def page_of(
    endpoint: Endpoint, *records: dict[str, Any], link: str | None = None, limit: int = 500
):
    is_v2 = endpoint.path.endswith("/")
    rest = {"meta": {"limit": limit, "next": link}} if is_v2 else {"links": {"next": link}}
    answer = {"data": records, **rest}
    return read_page(endpoint, json.dumps(answer).encode())


def alert(**members: Any) -> dict[str, Any]:
    return {
        "created_at": "2026-01-01T00:00:00+00:00",
        "created_at_timeuuid": NEW_YEAR_UUID,
        **members,
    }


@pytest.mark.parametrize(
    "odd", ["d0c3c000-e6a4-11f0-0080-808080808080", "d0c3c00--e6a4-11f0-8080-808080808080"]
)
def test_an_alert_whose_uuid_tells_no_time_is_quarantined_and_spoils_no_page(odd):
    page = page_of(ALERTS, alert(), alert(created_at_timeuuid=odd))

    assert page.rows["created_at_timeuuid"].to_pylist() == [NEW_YEAR_UUID]
    assert len(page.rejects) == 1


@pytest.mark.parametrize(
    ("spelling", "instant"),
    [
        ("2026-06-06T12:59:12.462000+00:00", datetime(2026, 6, 6, 12, 59, 12, 462000, UTC)),
        ("2026-06-06T12:59:11+00:00", datetime(2026, 6, 6, 12, 59, 11, 0, UTC)),
        ("2026-03-29T02:45:29.163359Z", datetime(2026, 3, 29, 2, 45, 29, 163359, UTC)),
        ("2026-03-29T02:45:29", datetime(2026, 3, 29, 2, 45, 29, 0, UTC)),
        ("2026-03-29T02:45:29.1633599Z", datetime(2026, 3, 29, 2, 45, 29, 163359, UTC)),
        ("2026-03-29T04:45:29.163359+02:00", datetime(2026, 3, 29, 2, 45, 29, 163359, UTC)),
        ("1969-12-31T23:59:59.999999Z", datetime(1969, 12, 31, 23, 59, 59, 999999, UTC)),
    ],
)
@pytest.mark.parametrize("others", [{}, {"unknown": 1}], ids=["fast", "lenient"])
def test_each_format_of_a_time_becomes_its_instant(spelling, instant, others):
    page = page_of(ALERTS, alert(detected_at=spelling, **others))

    assert page.value("detected_at", 0) == instant


def test_records_stay_in_the_services_order():
    page = page_of(ENDPOINTS["groups"], *({"id": str(number)} for number in (5, 3, 9)))

    assert page.rows["id"].to_pylist() == [5, 3, 9]
    assert (page.value("id", 0), page.value("id", -1)) == (5, 9)


def test_the_count_includes_the_misfits():
    page = page_of(ENDPOINTS["groups"], {"id": "1"}, {"name": "without an id"}, {"id": "2"})

    assert page.count == 3
    assert page.rows["id"].to_pylist() == [1, 2]
    assert [reject.reason for reject in page.rejects] == ["id: missing"]


def test_unknown_members_stay_with_their_own_record_if_others_are_misfits():
    page = page_of(ENDPOINTS["groups"], {}, {"id": "1"}, {}, {"id": "2", "new": True})

    assert [row and json.loads(row) for row in page.rows[EXTRA].to_pylist()] == [
        None,
        {"new": True},
    ]


def test_only_the_query_of_a_link_is_used_because_its_host_gets_no_keys():
    link = "https://elsewhere.example/x/?created_at_timeuuid__lt=abc&limit=500&at=1%2b2"

    page = page_of(ALERTS, alert(), link=link)

    assert page.next == {"created_at_timeuuid__lt": "abc", "limit": "500", "at": "1+2"}
    assert not page.is_last


def test_a_page_without_rows_has_no_value():
    page = page_of(ALERTS)

    assert page.value("created_at", -1) is None
    assert event_at(ALERTS, page, -1) is None


def test_the_instant_of_a_row_is_the_time_that_its_window_filters():
    page = page_of(ALERTS, alert(created_at="2026-01-01T00:00:07+00:00"))

    assert page.value("created_at", 0) != NEW_YEAR
    assert event_at(ALERTS, page, 0) == NEW_YEAR


def test_an_endpoint_without_a_window_has_no_instants():
    assert event_at(ENDPOINTS["groups"], page_of(ENDPOINTS["groups"], {"id": "1"}), 0) is None


def test_the_id_of_the_call_is_added_to_records_without_it():
    fix = {"created_at": "2026-01-01T00:00:00Z", "created_at_timeuuid": NEW_YEAR_UUID}

    page = stamp(FIXES, page_of(FIXES, fix, fix), 4618577)

    assert page.rows["router_id"].to_pylist() == [4618577, 4618577]
    assert page.rows.schema == schema_of(FIXES)


def test_an_empty_page_gets_the_id_column_too():
    assert stamp(FIXES, page_of(FIXES), 1).rows.num_rows == 0


def test_records_with_their_own_id_are_left_unchanged():
    page = page_of(ALERTS, alert(router="https://h/api/v2/routers/7/"))

    assert stamp(ALERTS, page, 9).rows["router_id"].to_pylist() == [7]
