"""The endpoint table: what no load of the simulator shows, and rows that contradict themselves."""

from dataclasses import replace
from datetime import timedelta

import pytest

from fleetlake.endpoints import ENDPOINTS, PUSHED, endpoint_named, endpoints_named
from fleetlake.endpoints.columns import columns_of
from fleetlake.endpoints.model import Api, Cursor, Endpoint, FanOut, Mode, Walk, WindowFilters
from fleetlake.errors import UsageError
from tests.support.cases import every_endpoint

RETENTION_DAYS = {"activity_logs": 30, "configuration_managers": 90}


def a_row(**changes: object) -> Endpoint:
    values = {
        "name": "things",
        "about": "Things.",
        "key": ("id",),
        "mode": Mode.UPSERT,
        "cursor": Cursor(walk=Walk.OFFSET, parameter="offset"),
        "columns": columns_of("things", ["id", "name", "created_at", "ended_at"]),
        **changes,
    }
    return Endpoint(**values)


@every_endpoint
def test_every_retention_of_the_service_is_in_the_table(endpoint):
    days = RETENTION_DAYS.get(endpoint.name)

    assert endpoint.retention == (timedelta(days=days) if days else None)


@every_endpoint
def test_an_append_endpoint_has_a_time_and_a_unique_key(endpoint):
    if endpoint.mode is not Mode.APPEND:
        return

    assert endpoint.event_time in {column.name for column in endpoint.columns}
    assert any("timeuuid" in name or "action_id" in name for name in endpoint.key)


@every_endpoint
def test_a_change_of_address_or_uptime_alone_makes_no_new_version(endpoint):
    assert not {"resource_url", "uptime"} & set(endpoint.tracked)


def test_an_endpoint_can_be_named_by_its_table():
    assert endpoint_named("raw.alerts") is endpoint_named("alerts")


def test_an_unknown_name_gets_the_nearest_name_in_one_line():
    with pytest.raises(UsageError) as failure:
        endpoint_named("batterys")

    assert "'batterys'" in str(failure.value)
    assert "batteries" in str(failure.value)
    assert len(str(failure.value)) < 120


def test_named_endpoints_are_returned_once_in_table_order():
    names = [row.name for row in endpoints_named(["alerts", "accounts", "alerts", "routers"])]

    assert names == ["accounts", "routers", "alerts"]


def test_an_unknown_column_is_an_error():
    with pytest.raises(KeyError, match="altitude_of_moon"):
        ENDPOINTS["alerts"].column("altitude_of_moon")


@pytest.mark.parametrize(
    "changes",
    [
        {"key": ()},
        {"key": ("no_such_column",)},
        {"event_time": "created_at"},
        {"window": WindowFilters(start="created_at__gt", end="created_at__lt")},
        {"changes_until": "no_such_column"},
        {
            "mode": Mode.HISTORY,
            "event_time": "created_at",
            "window": WindowFilters(start="created_at__gt", end="created_at__lt"),
        },
    ],
)
def test_a_row_that_contradicts_itself_does_not_construct(changes):
    with pytest.raises(ValueError, match="things"):
        a_row(**changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"confirmed_by": None},
        {"mode": Mode.UPSERT},
        {"cursor": Cursor(walk=Walk.OFFSET, parameter="offset")},
        {"window": WindowFilters(start="created_at__gt", end="created_at__lt")},
        {"api": Api.V2},
    ],
)
def test_a_row_of_pushed_records_that_contradicts_itself_does_not_construct(changes):
    with pytest.raises(ValueError, match="pushed"):
        replace(PUSHED, **changes)


@pytest.mark.parametrize("walk", [Walk.TIMEUUID, Walk.ACTION_ID, Walk.ID_AFTER])
@pytest.mark.parametrize("parameter", ["id", "created_at_timeuuid__gte", "id__in", ""])
def test_a_cursor_that_might_not_advance_does_not_construct(walk, parameter):
    with pytest.raises(ValueError, match="must move in one direction"):
        Cursor(walk=walk, parameter=parameter)


@pytest.mark.parametrize("bounds", [("at__lt", "at__gt"), ("at", "at__lt"), ("at__gt", "at")])
def test_a_window_needs_a_lower_and_an_upper_bound(bounds):
    with pytest.raises(ValueError, match="lower and an upper"):
        WindowFilters(start=bounds[0], end=bounds[1])


@pytest.mark.parametrize("ids", [0, 101])
def test_a_fan_out_with_more_ids_than_allowed_does_not_construct(ids):
    fan_out = ENDPOINTS["batteries"].fan_out

    with pytest.raises(ValueError, match="1 to 100"):
        replace(fan_out, ids_per_call=ids)


def test_the_id_of_a_call_is_added_only_if_the_call_requests_a_single_id():
    with pytest.raises(ValueError, match="added to records"):
        FanOut(parameter="router__in", source="routers", partition="router_id", is_stamped=True)
