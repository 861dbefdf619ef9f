"""Lists that are read whole: what exists, and how it is configured."""

from datetime import timedelta
from typing import Any

from fleetlake.endpoints.columns import columns_of
from fleetlake.endpoints.model import Cursor, Endpoint, FanOut, Mode, Walk

BY_ID = Cursor(walk=Walk.ID_AFTER, parameter="id__gt")
BY_OFFSET = Cursor(walk=Walk.OFFSET, parameter="offset")


def _list(name: str, about: str, fields: str, cursor: Cursor, **more: Any) -> Endpoint:
    """Return the row of a list whose records have an id and are kept with their history."""
    columns = columns_of(name, fields)
    options = {"key": ("id",), "mode": Mode.HISTORY, **more}
    return Endpoint(name=name, about=about, cursor=cursor, columns=columns, **options)


ROWS = (
    _list(
        "accounts",
        "The account tree and its history.",
        "id account name is_disabled resource_url",
        BY_OFFSET,
    ),
    _list(
        "users",
        "People who may log in.",
        "id account username email first_name last_name resource_url",
        BY_OFFSET,
    ),
    _list(
        "groups",
        "Groups of devices and their shared settings.",
        "id account product target_firmware name device_type configuration resource_url",
        BY_ID,
    ),
    _list("products", "Device models.", "id name device_type series resource_url", BY_OFFSET),
    _list(
        "firmwares",
        "Firmware releases by product.",
        """id product version hash url is_deprecated default_configuration built_at
        uploaded_at released_at expires_at resource_url""",
        BY_OFFSET,
    ),
    _list(
        "routers",
        "Routers and access points.",
        """id account group product actual_firmware target_firmware configuration_manager
        last_known_location name description custom1 custom2 asset_id device_type
        full_product_name serial_number mac ipv4_address lans overlay_network_binding
        locality config_status state reboot_required upgrade_pending created_at updated_at
        state_updated_at resource_url""",
        BY_ID,
    ),
    _list(
        "net_devices",
        "Network interfaces: modems, Ethernet and WiFi, WAN and LAN.",
        """id account router name type mode connection_state summary manufacturer model
        mfg_model mfg_product serial mac hostname uid port ipv4_address ipv6_address netmask
        gateway dns0 dns1 mtu apn bsid carrier carrier_id homecarrid channel esn gsn iccid
        imei imsi mdn meid mn_ha_spi mn_ha_ss nai pin_status prlv profile roam rfband
        rfband5g rfchannel rxchannel txchannel ltebandwidth service_type ssid wimax_realm
        modem_fw ver_pkg version is_asset is_gps_supported is_upgrade_available
        is_upgrade_supported uptime updated_at resource_url""",
        BY_ID,
    ),
    _list(
        "router_lans",
        "Local networks of each router.",
        "id router name enabled ip_address netmask resource_url",
        BY_ID,
    ),
    _list(
        "configuration_managers",
        "Settings of each device: individual, pending and in force.",
        """id account router version_number suspended synched configuration pending actual
        target resource_url""",
        BY_OFFSET,
        retention=timedelta(days=90),
    ),
    _list(
        "net_device_metrics",
        "The latest signal and traffic counters of each interface.",
        """id net_device service_type cell_id lac mcc mnc tac bmask_applied bytes_in
        bytes_out signal_strength cinr dbm ecio rsrp rsrq rssi rssnr sinr rsrp5g rsrq5g sinr5g
        rsrp5g_highband rsrq5g_highband sinr5g_highband update_ts resource_url""",
        BY_ID,
        mode=Mode.UPSERT,
    ),
    _list(
        "net_device_health",
        "The service's own score of each modem's link, and its history.",
        "id net_device cellular_health_category cellular_health_score resource_url",
        BY_ID,
    ),
    _list(
        "locations",
        "The latest location of each device.",
        """id account router latitude longitude accuracy altitude_meters method updated_at
        resource_url""",
        BY_OFFSET,
        mode=Mode.UPSERT,
    ),
    _list(
        "batteries",
        "Charge, current, temperature and health of each battery at every poll.",
        """id router manufacturer serial type status health milliamps millivolts rsoc temp
        time_remaining created_at updated_at resource_url""",
        BY_OFFSET,
        fan_out=FanOut(parameter="router__in", source="routers", partition="router_id"),
    ),
    _list(
        "device_apps",
        "Apps built with the device SDK.",
        "id account uuid name description created_at updated_at resource_url",
        BY_OFFSET,
    ),
    _list(
        "device_app_versions",
        "Versions of the device apps.",
        "id account app version state state_details created_at updated_at resource_url",
        BY_OFFSET,
    ),
    _list(
        "device_app_bindings",
        "Which group runs which app version.",
        "id account group app_version state created_at updated_at resource_url",
        BY_OFFSET,
    ),
    _list(
        "device_app_states",
        "State of each app version on each device.",
        "id account router app_version state created_at updated_at resource_url",
        BY_OFFSET,
    ),
    _list(
        "alert_rules",
        "Which alerts the service raises, and who is notified.",
        """alert_config_id account filter_criteria associated_accounts associated_groups
        http_destinations email_destinations schedule settings external_rules
        last_summary_ts updated_at""",
        Cursor(walk=Walk.TIMEUUID, parameter="alert_config_id__gt"),
        key=("alert_config_id",),
    ),
    _list(
        "alert_push_destinations",
        "Where the service pushes alerts, and whether deliveries succeed.",
        """destination_config_id account name endpoint.url authentication.secret enabled
        suspended last_error_at last_error_text updated_at""",
        Cursor(walk=Walk.TIMEUUID, parameter="destination_config_id__gt"),
        key=("destination_config_id",),
    ),
)
