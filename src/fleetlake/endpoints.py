"""THE table: one row per endpoint. No other code names one.

To add an endpoint, add a row here, the meaning of any new field to `columns`, and a staging
view in `sql/`. Fields come from the service contract where it tables them, and from what the
live service is seen to answer where it does not.
"""

from collections.abc import Iterable
from datetime import timedelta

from fleetlake.columns import columns_of
from fleetlake.endpoint import Cursor, Endpoint, FanOut, Mode, Walk, Window
from fleetlake.errors import UsageError

BY_ID = Cursor(walk=Walk.ID_AFTER, parameter="id__gt")
BY_OFFSET = Cursor(walk=Walk.OFFSET, parameter="offset")
NEWEST_FIRST = Cursor(walk=Walk.TIMEUUID, parameter="created_at_timeuuid__lt")
OLDEST_FIRST = Cursor(walk=Walk.TIMEUUID, parameter="created_at_timeuuid__gt")

TIMEUUID_WINDOW = Window(start="created_at_timeuuid__gte", end="created_at_timeuuid__lt")

PER_INTERFACE = FanOut(parameter="net_device__in", source="net_devices", partition="net_device_id")
PER_ROUTER = FanOut(parameter="router__in", source="routers", partition="router_id")

_ROWS = (
    Endpoint(
        name="accounts",
        about="The account tree, as it was and is.",
        key=("id",),
        mode=Mode.HISTORY,
        cursor=BY_OFFSET,
        columns=columns_of("accounts", "id account name is_disabled resource_url"),
    ),
    Endpoint(
        name="users",
        about="People who may log in.",
        key=("id",),
        mode=Mode.HISTORY,
        cursor=BY_OFFSET,
        columns=columns_of("users", "id account username email first_name last_name resource_url"),
    ),
    Endpoint(
        name="groups",
        about="Groups of devices and their shared settings.",
        key=("id",),
        mode=Mode.HISTORY,
        cursor=BY_ID,
        columns=columns_of(
            "groups",
            "id account product target_firmware name device_type configuration resource_url",
        ),
    ),
    Endpoint(
        name="products",
        about="Device models.",
        key=("id",),
        mode=Mode.HISTORY,
        cursor=BY_OFFSET,
        columns=columns_of("products", "id name device_type series resource_url"),
    ),
    Endpoint(
        name="routers",
        about="Routers and access points.",
        key=("id",),
        mode=Mode.HISTORY,
        cursor=BY_ID,
        columns=columns_of(
            "routers",
            """id account group product actual_firmware target_firmware configuration_manager
            last_known_location name description custom1 custom2 asset_id device_type
            full_product_name serial_number mac ipv4_address lans locality config_status state
            reboot_required upgrade_pending created_at updated_at state_updated_at
            resource_url""",
        ),
    ),
    Endpoint(
        name="net_devices",
        about="Network interfaces: modems, Ethernet and WiFi, WAN and LAN.",
        key=("id",),
        mode=Mode.HISTORY,
        cursor=BY_ID,
        columns=columns_of(
            "net_devices",
            """id account router name type mode connection_state summary manufacturer model
            mfg_model mfg_product serial mac hostname uid port ipv4_address ipv6_address netmask
            gateway dns0 dns1 mtu apn bsid carrier carrier_id homecarrid channel esn gsn iccid
            imei imsi mdn meid mn_ha_spi mn_ha_ss nai pin_status prlv profile roam rfband
            rfband5g rfchannel rxchannel txchannel ltebandwidth service_type ssid wimax_realm
            modem_fw ver_pkg version is_asset is_gps_supported is_upgrade_available
            is_upgrade_supported uptime updated_at resource_url""",
        ),
    ),
    Endpoint(
        name="net_device_metrics",
        about="The latest signal and traffic counters of each interface.",
        key=("id",),
        mode=Mode.UPSERT,
        cursor=BY_ID,
        columns=columns_of(
            "net_device_metrics",
            """id net_device service_type cell_id lac mcc mnc tac bmask_applied bytes_in
            bytes_out signal_strength cinr dbm ecio rsrp rsrq rssi rssnr sinr update_ts
            resource_url""",
        ),
    ),
    Endpoint(
        name="locations",
        about="Where each device is now.",
        key=("id",),
        mode=Mode.UPSERT,
        cursor=BY_OFFSET,
        columns=columns_of(
            "locations",
            """id account router latitude longitude accuracy altitude_meters method updated_at
            resource_url""",
        ),
    ),
    Endpoint(
        name="historical_locations",
        about="Every fix of each device, with signal along the way.",
        key=("router_id", "created_at_timeuuid"),
        mode=Mode.APPEND,
        cursor=OLDEST_FIRST,
        event_time="created_at",
        window=Window(start="created_at__gt", end="created_at__lte"),
        fan_out=FanOut(
            parameter="router",
            source="routers",
            ids_per_call=1,
            partition="router_id",
            is_stamped=True,
        ),
        columns=columns_of(
            "historical_locations",
            """router created_at created_at_timeuuid latitude longitude accuracy altitude mph
            net_device_name carrier_id rfband rfband_5g summary signal_percent cinr dbm ecio
            rsrp rsrp_5g rsrq rsrq_5g rssi sinr sinr_5g""",
        ),
    ),
    Endpoint(
        name="alerts",
        about="What the service alerted on, by device or account.",
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
        name="activity_logs",
        about="Who did what to what, with the entity before and after.",
        key=("action_id",),
        mode=Mode.APPEND,
        cursor=Cursor(walk=Walk.ACTION_ID, parameter="action__id__lt"),
        event_time="action_timestamp",
        window=Window(start="action__timestamp__gte", end="action__timestamp__lt"),
        retention=timedelta(days=30),
        columns=columns_of(
            "activity_logs",
            """action.id action.timestamp action.type action.type_name action.before
            action.after actor.id actor.type actor.type_name actor.email object.id object.type
            object.type_name object.role object.user""",
        ),
    ),
    Endpoint(
        name="batteries",
        about="Charge, current, heat and health of each battery at every poll.",
        key=("id",),
        mode=Mode.HISTORY,
        cursor=BY_OFFSET,
        fan_out=PER_ROUTER,
        columns=columns_of(
            "batteries",
            """id router manufacturer serial type status health milliamps millivolts rsoc temp
            time_remaining created_at updated_at resource_url""",
        ),
    ),
    Endpoint(
        name="failovers",
        about="Each time a router moved to a backup WAN, followed until it ended.",
        key=("uuid",),
        mode=Mode.UPSERT,
        cursor=BY_OFFSET,
        event_time="started_at",
        window=Window(start="started_at__gte", end="started_at__lt"),
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
        name="net_device_usage_samples",
        about="Bytes moved by each interface, period by period.",
        key=("net_device_id", "created_at_timeuuid"),
        mode=Mode.APPEND,
        cursor=OLDEST_FIRST,
        event_time="created_at",
        window=TIMEUUID_WINDOW,
        fan_out=PER_INTERFACE,
        parameters={"order_by": "created_at_timeuuid"},
        columns=columns_of(
            "net_device_usage_samples",
            "net_device bytes_in bytes_out period uptime created_at created_at_timeuuid",
        ),
    ),
    Endpoint(
        name="net_device_signal_samples",
        about="Signal of each modem, period by period.",
        key=("net_device_id", "created_at_timeuuid"),
        mode=Mode.APPEND,
        cursor=OLDEST_FIRST,
        event_time="created_at",
        window=TIMEUUID_WINDOW,
        fan_out=PER_INTERFACE,
        parameters={"order_by": "created_at_timeuuid"},
        columns=columns_of(
            "net_device_signal_samples",
            """net_device signal_percent cinr dbm ecio rsrp rsrq rssi sinr uptime created_at
            created_at_timeuuid""",
        ),
    ),
)

ENDPOINTS: dict[str, Endpoint] = {row.name: row for row in _ROWS}


PROBE = ENDPOINTS["accounts"]
"""Asked for one record where an answer is wanted and nothing was read yet."""


def endpoint_named(name: str) -> Endpoint:
    """Return the row of that name. Raises: UsageError listing the names there are."""
    if name not in ENDPOINTS:
        raise UsageError(
            f"There is no endpoint called {name!r}.",
            remedy=f"Use one of: {', '.join(ENDPOINTS)}.",
        )
    return ENDPOINTS[name]


def endpoints_named(names: Iterable[str]) -> list[Endpoint]:
    """Return the named rows in the table's order. Raises: UsageError for an unknown name.

    >>> [e.name for e in endpoints_named(["batteries", "accounts"])]
    ['accounts', 'batteries']
    """
    wanted = {endpoint_named(name).name for name in names}
    return [row for row in _ROWS if row.name in wanted]
