"""Lists ordered by time: events and measurements."""

from dataclasses import replace
from datetime import timedelta

from fleetlake.endpoints.columns import columns_of
from fleetlake.endpoints.model import (
    Api,
    Cursor,
    Endpoint,
    FanOut,
    Mode,
    Moved,
    Walk,
    WindowFilters,
)

BY_OFFSET = Cursor(walk=Walk.OFFSET, parameter="offset")
NOT_REQUESTED = Cursor(walk=Walk.NONE, parameter="")
NEWEST_FIRST = Cursor(walk=Walk.TIMEUUID, parameter="created_at_timeuuid__lt")
OLDEST_FIRST = Cursor(walk=Walk.TIMEUUID, parameter="created_at_timeuuid__gt")

TIMEUUID_WINDOW = WindowFilters(start="created_at_timeuuid__gte", end="created_at_timeuuid__lt")

METRICS_MOVED = Moved(endpoint="net_device_metrics", id="net_device_id", at="update_ts")
PLACE_MOVED = Moved(endpoint="locations", id="router_id", at="updated_at")

URGENT = (
    *("connection_state", "failover_event", "system_error"),
    *("reboot_status_change", "alt_reboot_status_change"),
)
"""Alerts that a router's log explains. Any alert would double the calls for router logs."""

ROUTER_URGED = (
    Moved(endpoint="routers", id="id", at="state_updated_at"),
    Moved(endpoint="alerts", id="router_id", at="created_at", types=URGENT),
    Moved(endpoint="pushed_alerts", id="router_id", at="alerted_at", types=URGENT),
)

PER_INTERFACE = FanOut(
    parameter="net_device__in", source="net_devices", partition="net_device_id", moved=METRICS_MOVED
)
ONE_ROUTER = FanOut(
    parameter="router",
    source="routers",
    ids_per_call=1,
    partition="router_id",
    urged_by=ROUTER_URGED,
)
PER_ROUTER = FanOut(
    parameter="router__in", source="routers", partition="router_id", urged_by=ROUTER_URGED
)

PUSHED_LISTS = ("alerts", "data", "objects")
"""Members of a pushed message that may hold its alerts; the contract does not show the body."""


def _series(
    name: str, about: str, fields: str, *, of: str, fan_out: FanOut | None = None
) -> Endpoint:
    """Return the row of a series that can be read oldest first; `of` is the id it belongs to."""
    return Endpoint(
        name=name,
        about=about,
        key=(of, "created_at_timeuuid"),
        mode=Mode.APPEND,
        cursor=OLDEST_FIRST,
        event_time="created_at",
        window=TIMEUUID_WINDOW,
        fan_out=fan_out,
        parameters={"order_by": "created_at_timeuuid"},
        columns=columns_of(name, f"{fields} created_at created_at_timeuuid"),
    )


ROWS = (
    Endpoint(
        name="alerts",
        about="Alerts that the service raised, by device or account.",
        key=("created_at_timeuuid",),
        mode=Mode.APPEND,
        cursor=NEWEST_FIRST,
        event_time="created_at",
        window=TIMEUUID_WINDOW,
        columns=columns_of(
            "alerts",
            "account router type friendly_info info created_at created_at_timeuuid detected_at",
        ),
    ),
    Endpoint(
        name="pushed_alerts",
        about="Alerts that the service pushed, seconds after it raised them.",
        api=Api.PUSH,
        key=("push_id",),
        mode=Mode.APPEND,
        cursor=NOT_REQUESTED,
        event_time="alerted_at",
        confirmed_by="alerts",
        columns=columns_of(
            "pushed_alerts",
            """push_id alerted_at received_at account router type friendly_info info created_at
            created_at_timeuuid detected_at""",
        ),
    ),
    Endpoint(
        name="activity_logs",
        about="Who changed what, with the entity before and after.",
        key=("action_id",),
        mode=Mode.APPEND,
        cursor=Cursor(walk=Walk.ACTION_ID, parameter="action__id__lt"),
        event_time="action_timestamp",
        window=WindowFilters(start="action__timestamp__gte", end="action__timestamp__lt"),
        retention=timedelta(days=30),
        columns=columns_of(
            "activity_logs",
            """action.id action.timestamp action.type action.type_name action.before
            action.after action.diff actor.id actor.type actor.type_name actor.email actor.mac
            actor.name object.id object.type object.type_name object.role object.user""",
        ),
    ),
    Endpoint(
        name="failovers",
        about="Each failover of a router to a backup WAN, updated until it ends.",
        key=("uuid",),
        mode=Mode.UPSERT,
        cursor=BY_OFFSET,
        event_time="started_at",
        window=WindowFilters(start="started_at__gte", end="started_at__lt"),
        changes_until="ended_at",
        columns=columns_of(
            "failovers",
            """uuid account_id group_id router_id tenant_id router_name group_name carrier_name
            current_wan_interface previous_wan_interface current_wan_priority
            previous_wan_priority data_usage percent_data_cap elapsed_time started_at ended_at
            updated_at""",
        ),
    ),
    Endpoint(
        name="historical_locations",
        about="Every location fix of each device, with the signal there.",
        key=("router_id", "created_at_timeuuid"),
        mode=Mode.APPEND,
        cursor=OLDEST_FIRST,
        event_time="created_at",
        window=WindowFilters(start="created_at__gt", end="created_at__lte"),
        fan_out=replace(ONE_ROUTER, is_stamped=True, moved=PLACE_MOVED, urged_by=()),
        columns=columns_of(
            "historical_locations",
            """router created_at created_at_timeuuid latitude longitude accuracy altitude mph
            net_device_name carrier_id rfband rfband_5g summary signal_percent cinr dbm ecio
            rsrp rsrp_5g rsrq rsrq_5g rssi sinr sinr_5g""",
        ),
    ),
    _series(
        "net_device_usage_samples",
        "Bytes moved by each interface, period by period.",
        "net_device bytes_in bytes_out period uptime",
        of="net_device_id",
        fan_out=PER_INTERFACE,
    ),
    _series(
        "net_device_signal_samples",
        "Signal of each modem, period by period.",
        """net_device signal_percent cinr dbm ecio rsrp rsrq rssi rssnr sinr rsrp5g rsrq5g sinr5g
        rsrp5g_highband rsrq5g_highband sinr5g_highband uptime""",
        of="net_device_id",
        fan_out=PER_INTERFACE,
    ),
    _series(
        "router_alerts",
        "Alerts recorded in each device's log.",
        "router type friendly_info info detected_at",
        of="router_id",
    ),
    _series(
        "router_logs",
        "Log entries that devices sent.",
        "router level source message exception sequence reported_at",
        of="router_id",
        fan_out=ONE_ROUTER,
    ),
    _series(
        "router_state_samples",
        "Whether each device was online, period by period.",
        "router state period",
        of="router_id",
        fan_out=PER_ROUTER,
    ),
    _series(
        "router_stream_usage_samples",
        "Bytes moved by each device, period by period.",
        "router bytes_in bytes_out period uptime",
        of="router_id",
        fan_out=PER_ROUTER,
    ),
)
