"""The endpoint table compared with the service contract, and rows that contradict themselves.

The expected facts come from the contract and from observation, not from the table.
"""

from dataclasses import replace
from datetime import timedelta

import pytest

from fleetlake.endpoints import ENDPOINTS, PUSHED, endpoint_named, endpoints_named
from fleetlake.endpoints.columns import columns_of
from fleetlake.endpoints.model import Api, Cursor, Endpoint, FanOut, Mode, Walk, WindowFilters
from fleetlake.errors import UsageError
from tests.support.cases import every_endpoint

WITHOUT_OFFSET = {
    "activity_logs",
    "alert_push_destinations",
    "alert_rules",
    "alerts",
    "historical_locations",
    "net_device_signal_samples",
    "net_device_usage_samples",
    "router_alerts",
    "router_state_samples",
    "router_stream_usage_samples",
}
WITH_ID_PAGING = {
    "groups",
    "net_devices",
    "net_device_health",
    "net_device_metrics",
    "routers",
    "router_lans",
}
REQUIRED_FILTERS = {
    "historical_locations": ("router", 1),
    "net_device_signal_samples": ("net_device__in", 100),
    "net_device_usage_samples": ("net_device__in", 100),
    "router_state_samples": ("router__in", 100),
    "router_stream_usage_samples": ("router__in", 100),
    "router_logs": ("router", 1),
    "batteries": ("router__in", 100),
    "asset_endpoint_subscriptions": ("filter[id]", 50),
}
RETENTION_DAYS = {"activity_logs": 30, "configuration_managers": 90}
NEWEST_FIRST_ONLY = {"alerts", "activity_logs"}


def a_row(**changes: object) -> Endpoint:
    values = {
        "name": "things",
        "about": "Things.",
        "key": ("id",),
        "mode": Mode.UPSERT,
        "cursor": Cursor(walk=Walk.OFFSET, parameter="offset"),
        "columns": columns_of("things", "id name created_at ended_at"),
        **changes,
    }
    return Endpoint(**values)


@every_endpoint
def test_a_walk_uses_only_the_paging_that_the_service_has(endpoint):
    walk = endpoint.cursor.walk

    assert walk is not Walk.OFFSET or endpoint.name not in WITHOUT_OFFSET
    assert walk is not Walk.ID_AFTER or endpoint.name in WITH_ID_PAGING
    assert (walk is Walk.ACTION_ID) == (endpoint.name == "activity_logs")


@every_endpoint
def test_no_requested_page_is_larger_than_the_service_allows(endpoint):
    assert 1 <= endpoint.page_size <= 500


@every_endpoint
def test_required_filters_are_set_with_no_more_ids_than_allowed(endpoint):
    fan_out = endpoint.fan_out
    asked = (fan_out.parameter, fan_out.ids_per_call) if fan_out else None

    assert asked == REQUIRED_FILTERS.get(endpoint.name)


@every_endpoint
def test_a_fan_out_takes_its_ids_from_an_endpoint_that_is_read_before_it(endpoint):
    if endpoint.fan_out is None:
        return
    names = list(ENDPOINTS)
    source = ENDPOINTS[endpoint.fan_out.source]

    assert names.index(source.name) < names.index(endpoint.name)
    assert source.fan_out is None
    assert source.key == ("id",)
    assert endpoint.column(endpoint.fan_out.partition)


@every_endpoint
def test_every_retention_of_the_service_is_in_the_table(endpoint):
    days = RETENTION_DAYS.get(endpoint.name)

    assert endpoint.retention == (timedelta(days=days) if days else None)


@every_endpoint
def test_order_is_requested_only_where_the_service_accepts_it(endpoint):
    if endpoint.name in NEWEST_FIRST_ONLY:
        assert endpoint.cursor.is_newest_first
        assert "order_by" not in endpoint.parameters
    elif "order_by" in endpoint.parameters:
        assert endpoint.parameters["order_by"] == "created_at_timeuuid"
        assert endpoint.cursor.parameter == "created_at_timeuuid__gt"


@every_endpoint
def test_an_append_endpoint_has_a_time_and_a_unique_key(endpoint):
    if endpoint.mode is not Mode.APPEND:
        return

    assert endpoint.event_time in {column.name for column in endpoint.columns}
    assert any("timeuuid" in name or "action_id" in name for name in endpoint.key)


@every_endpoint
def test_columns_taken_from_the_call_are_not_required_in_a_record(endpoint):
    stamped = endpoint.fan_out and endpoint.fan_out.is_stamped

    expected = {*endpoint.key, endpoint.event_time} - {None}
    if stamped:
        expected -= {endpoint.fan_out.partition}

    assert endpoint.required == expected
    assert not set(endpoint.tracked) & set(endpoint.key)


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


def test_pushed_records_are_events_that_are_never_requested_and_that_a_list_confirms():
    assert not PUSHED.is_requested
    assert not PUSHED.is_snapshot
    assert endpoint_named(PUSHED.confirmed_by).is_requested
    assert PUSHED in ENDPOINTS.values()


def test_a_valid_row_constructs_and_is_immutable():
    row = a_row()

    assert row.is_snapshot
    with pytest.raises(AttributeError):
        row.page_size = 1


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
