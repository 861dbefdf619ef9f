"""Lists that are read whole: what exists, and how it is configured."""

from datetime import timedelta

from fleetlake.endpoints.columns import columns_of
from fleetlake.endpoints.model import Cursor, Endpoint, FanOut, Mode, Walk

BY_ID = Cursor(walk=Walk.ID_AFTER, parameter="id__gt")
BY_OFFSET = Cursor(walk=Walk.OFFSET, parameter="offset")

ROWS = (
    Endpoint(
        name="accounts",
        about="The account tree and its history.",
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
        name="firmwares",
        about="Firmware releases by product.",
        key=("id",),
        mode=Mode.HISTORY,
        cursor=BY_OFFSET,
        columns=columns_of(
            "firmwares",
            """id product version hash url is_deprecated default_configuration built_at
            uploaded_at released_at expires_at resource_url""",
        ),
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
            full_product_name serial_number mac ipv4_address lans overlay_network_binding
            locality config_status state reboot_required upgrade_pending created_at updated_at
            state_updated_at resource_url""",
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
        name="router_lans",
        about="Local networks of each router.",
        key=("id",),
        mode=Mode.HISTORY,
        cursor=BY_ID,
        columns=columns_of("router_lans", "id router name enabled ip_address netmask resource_url"),
    ),
    Endpoint(
        name="configuration_managers",
        about="Settings of each device: individual, pending and in force.",
        key=("id",),
        mode=Mode.HISTORY,
        cursor=BY_OFFSET,
        retention=timedelta(days=90),
        columns=columns_of(
            "configuration_managers",
            """id account router version_number suspended synched configuration pending actual
            target resource_url""",
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
            bytes_out signal_strength cinr dbm ecio rsrp rsrq rssi rssnr sinr rsrp5g rsrq5g sinr5g
            rsrp5g_highband rsrq5g_highband sinr5g_highband update_ts resource_url""",
        ),
    ),
    Endpoint(
        name="net_device_health",
        about="The service's own score of each modem's link, and its history.",
        key=("id",),
        mode=Mode.HISTORY,
        cursor=BY_ID,
        columns=columns_of(
            "net_device_health",
            "id net_device cellular_health_category cellular_health_score resource_url",
        ),
    ),
    Endpoint(
        name="locations",
        about="The latest location of each device.",
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
        name="batteries",
        about="Charge, current, temperature and health of each battery at every poll.",
        key=("id",),
        mode=Mode.HISTORY,
        cursor=BY_OFFSET,
        fan_out=FanOut(parameter="router__in", source="routers", partition="router_id"),
        columns=columns_of(
            "batteries",
            """id router manufacturer serial type status health milliamps millivolts rsoc temp
            time_remaining created_at updated_at resource_url""",
        ),
    ),
    Endpoint(
        name="device_apps",
        about="Apps built with the device SDK.",
        key=("id",),
        mode=Mode.HISTORY,
        cursor=BY_OFFSET,
        columns=columns_of(
            "device_apps",
            "id account uuid name description created_at updated_at resource_url",
        ),
    ),
    Endpoint(
        name="device_app_versions",
        about="Versions of the device apps.",
        key=("id",),
        mode=Mode.HISTORY,
        cursor=BY_OFFSET,
        columns=columns_of(
            "device_app_versions",
            "id account app version state state_details created_at updated_at resource_url",
        ),
    ),
    Endpoint(
        name="device_app_bindings",
        about="Which group runs which app version.",
        key=("id",),
        mode=Mode.HISTORY,
        cursor=BY_OFFSET,
        columns=columns_of(
            "device_app_bindings",
            "id account group app_version state created_at updated_at resource_url",
        ),
    ),
    Endpoint(
        name="device_app_states",
        about="State of each app version on each device.",
        key=("id",),
        mode=Mode.HISTORY,
        cursor=BY_OFFSET,
        columns=columns_of(
            "device_app_states",
            "id account router app_version state created_at updated_at resource_url",
        ),
    ),
    Endpoint(
        name="alert_rules",
        about="Which alerts the service raises, and who is notified.",
        key=("alert_config_id",),
        mode=Mode.HISTORY,
        cursor=Cursor(walk=Walk.TIMEUUID, parameter="alert_config_id__gt"),
        columns=columns_of(
            "alert_rules",
            """alert_config_id account filter_criteria associated_accounts associated_groups
            http_destinations email_destinations schedule settings external_rules
            last_summary_ts updated_at""",
        ),
    ),
    Endpoint(
        name="alert_push_destinations",
        about="Where the service pushes alerts, and whether deliveries succeed.",
        key=("destination_config_id",),
        mode=Mode.HISTORY,
        cursor=Cursor(walk=Walk.TIMEUUID, parameter="destination_config_id__gt"),
        columns=columns_of(
            "alert_push_destinations",
            """destination_config_id account name endpoint.url authentication.secret enabled
            suspended last_error_at last_error_text updated_at""",
        ),
    ),
)
