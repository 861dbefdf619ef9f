"""The column vocabulary: the meaning of each field of the service, written once.

A field with the same meaning on several endpoints has one entry, so a quantity has the same
type, unit and column name everywhere. A field with a meaning of its own on one endpoint has an
entry `endpoint.field`, which takes precedence. A nested member is written with dots
(`action.id`).
"""

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """How a value is sent, and how it is stored."""

    ID = "id"  # decimal string or number -> BIGINT
    RELATION = "relation"  # URL, id or inline object -> BIGINT in <thing>_id
    INTEGER = "integer"  # -> BIGINT
    REAL = "real"  # -> DOUBLE
    FLAG = "flag"  # -> BOOLEAN
    TEXT = "text"  # -> VARCHAR
    TIME = "time"  # any of the service's formats -> TIMESTAMP WITH TIME ZONE, UTC, µs
    TIMEUUID = "timeuuid"  # version-1 UUID string -> VARCHAR; does not sort by time as text
    IDS = "ids"  # JSON:API links or ids, one or many -> JSON list of ids as texts, sorted
    JSON = "json"  # any value -> JSON, as the service wrote it


class Privacy(StrEnum):
    """What a value may reveal about a person or a device, beyond its measurements."""

    PLACE = "place"  # a coordinate
    IDENTIFIER = "identifier"  # of one device, SIM card or person
    NAME = "name"  # that people gave to a device, a person or an account
    TEXT = "text"  # which may contain any of the above


@dataclass(frozen=True, kw_only=True)
class Meaning:
    """A vocabulary entry: everything about a column except its field name."""

    kind: Kind
    meaning: str
    unit: str | None = None
    is_tracked: bool = True
    privacy: Privacy | None = None
    is_foreign_url: bool = False


def _of(
    kind: Kind,
    meaning: str,
    unit: str | None = None,
    *,
    is_tracked: bool = True,
    privacy: Privacy | None = None,
    is_foreign_url: bool = False,
) -> Meaning:
    return Meaning(
        kind=kind,
        meaning=meaning,
        unit=unit,
        is_tracked=is_tracked,
        privacy=privacy,
        is_foreign_url=is_foreign_url,
    )


PLACE, IDENTIFIER, NAME = Privacy.PLACE, Privacy.IDENTIFIER, Privacy.NAME
ID, RELATION, INTEGER, REAL = Kind.ID, Kind.RELATION, Kind.INTEGER, Kind.REAL
FLAG, TEXT, TIME, TIMEUUID, JSON = Kind.FLAG, Kind.TEXT, Kind.TIME, Kind.TIMEUUID, Kind.JSON
IDS = Kind.IDS

VOCABULARY: dict[str, Meaning] = {
    # --- identity and relations -------------------------------------------------------------
    "id": _of(ID, "Identifier of the record."),
    "resource_url": _of(TEXT, "Address of the record; its host varies.", is_tracked=False),
    "account": _of(RELATION, "Account the record belongs to."),
    "accounts.account": _of(RELATION, "Parent account; null for the root."),
    "actual_firmware": _of(RELATION, "Firmware the device runs."),
    "configuration_manager": _of(
        RELATION, "Device whose configuration record it links to: itself.", is_tracked=False
    ),
    "group": _of(RELATION, "Group the device belongs to."),
    "last_known_location": _of(RELATION, "Location record of the device."),
    "net_device": _of(RELATION, "Network interface the record is about."),
    "product": _of(RELATION, "Product (model) of the device or group."),
    "router": _of(RELATION, "Router or access point the record is about."),
    "net_devices.router": _of(RELATION, "Router that holds the interface; null when orphaned."),
    "target_firmware": _of(RELATION, "Firmware the device or group should run."),
    # --- names and descriptions -------------------------------------------------------------
    "custom1": _of(TEXT, "Free text set by the account.", privacy=Privacy.TEXT),
    "custom2": _of(TEXT, "Free text set by the account.", privacy=Privacy.TEXT),
    "description": _of(TEXT, "Free text describing the device.", privacy=Privacy.TEXT),
    "name": _of(TEXT, "Name shown to people.", privacy=NAME),
    "manufacturer": _of(TEXT, "Maker of the part."),
    "model": _of(TEXT, "Model of the part."),
    "serial": _of(TEXT, "Serial number of the part.", privacy=IDENTIFIER),
    "serial_number": _of(TEXT, "Serial number of the device.", privacy=IDENTIFIER),
    "asset_id": _of(TEXT, "Asset tag set by the account.", privacy=NAME),
    "mac": _of(TEXT, "MAC address.", privacy=IDENTIFIER),
    "hostname": _of(TEXT, "Host name on the interface.", privacy=NAME),
    "summary": _of(TEXT, "Connection state in words."),
    "historical_locations.summary": _of(TEXT, "Connection state in words at the fix."),
    # --- people -----------------------------------------------------------------------------
    "email": _of(TEXT, "E-mail address.", privacy=IDENTIFIER),
    "first_name": _of(TEXT, "Given name.", privacy=NAME),
    "last_name": _of(TEXT, "Family name.", privacy=NAME),
    "username": _of(TEXT, "Login name.", privacy=IDENTIFIER),
    "is_disabled": _of(FLAG, "True when the account is disabled."),
    # --- times ------------------------------------------------------------------------------
    "created_at": _of(TIME, "When the service created the record."),
    "created_at_timeuuid": _of(TIMEUUID, "Identifies the record; orders by its embedded time."),
    "detected_at": _of(TIME, "When the condition was detected."),
    "ended_at": _of(TIME, "When the failover ended; null while it runs."),
    "started_at": _of(TIME, "When the failover began."),
    "state_updated_at": _of(TIME, "When `state` last changed."),
    "update_ts": _of(TIME, "When the values were last measured."),
    "updated_at": _of(TIME, "When the record last changed."),
    "net_devices.updated_at": _of(TIME, "When the record last changed.", is_tracked=False),
    # --- groups and products ----------------------------------------------------------------
    "configuration": _of(
        JSON, "Individual settings: [{updates}, [removals]].", privacy=Privacy.TEXT
    ),
    "groups.configuration": _of(
        JSON, "Settings of the group: [{updates}, [removals]].", privacy=Privacy.TEXT
    ),
    "device_type": _of(TEXT, "router or access_point."),
    "series": _of(TEXT, "Product series."),
    # --- routers ----------------------------------------------------------------------------
    "config_status": _of(TEXT, "synched, suspended or pending."),
    "full_product_name": _of(TEXT, "Product name with its variant."),
    "ipv4_address": _of(TEXT, "IPv4 address.", privacy=Privacy.TEXT),
    "lans": _of(
        JSON, "Address of the LAN records; its host varies.", is_tracked=False, privacy=Privacy.TEXT
    ),
    "locality": _of(TEXT, "Name of the device's time zone."),
    "overlay_network_binding": _of(
        RELATION, "Removed by the service in 2024, and still sent.", is_tracked=False
    ),
    "reboot_required": _of(FLAG, "True when a reboot is needed to apply changes."),
    "state": _of(TEXT, "initialized, online or offline."),
    "upgrade_pending": _of(FLAG, "True while a firmware upgrade is pending."),
    # --- interfaces -------------------------------------------------------------------------
    "apn": _of(TEXT, "Access point name of the carrier."),
    "bsid": _of(TEXT, "Base station identifier."),
    "carrier": _of(TEXT, "Carrier in use."),
    "carrier_id": _of(TEXT, "Carrier identifier or name in use."),
    "channel": _of(TEXT, "Radio channel."),
    "connection_state": _of(TEXT, "connected, disconnected, standby and the like."),
    "dns0": _of(TEXT, "First DNS server."),
    "dns1": _of(TEXT, "Second DNS server."),
    "esn": _of(TEXT, "Electronic serial number of the modem.", privacy=IDENTIFIER),
    "gateway": _of(TEXT, "Gateway address."),
    "gsn": _of(TEXT, "Global serial number of the modem.", privacy=IDENTIFIER),
    "homecarrid": _of(TEXT, "Home carrier identifier."),
    "iccid": _of(TEXT, "SIM card identifier.", privacy=IDENTIFIER),
    "imei": _of(TEXT, "Modem equipment identity.", privacy=IDENTIFIER),
    "imsi": _of(TEXT, "Subscriber identity.", privacy=IDENTIFIER),
    "ipv6_address": _of(TEXT, "IPv6 address.", privacy=Privacy.TEXT),
    "is_asset": _of(FLAG, "True for an interface that is an asset of the account."),
    "is_gps_supported": _of(FLAG, "True when the modem can take fixes."),
    "is_upgrade_available": _of(FLAG, "Inaccurate since 2023-12-31; do not use."),
    "is_upgrade_supported": _of(FLAG, "True when the modem software can be upgraded."),
    "ltebandwidth": _of(TEXT, "LTE channel bandwidth."),
    "mdn": _of(TEXT, "Phone number of the line.", privacy=IDENTIFIER),
    "meid": _of(TEXT, "Mobile equipment identifier.", privacy=IDENTIFIER),
    "mfg_model": _of(TEXT, "Model as the maker names it."),
    "mfg_product": _of(TEXT, "Product as the maker names it."),
    "mn_ha_spi": _of(TEXT, "Mobile-IP home agent security index."),
    "mn_ha_ss": _of(TEXT, "Mobile-IP home agent secret state.", privacy=IDENTIFIER),
    "mode": _of(TEXT, "wan or lan."),
    "modem_fw": _of(TEXT, "Modem software version."),
    "mtu": _of(INTEGER, "Largest packet.", "bytes"),
    "nai": _of(TEXT, "Network access identifier.", privacy=IDENTIFIER),
    "netmask": _of(TEXT, "Network mask."),
    "pin_status": _of(TEXT, "SIM PIN state."),
    "port": _of(TEXT, "Port the interface sits on."),
    "prlv": _of(TEXT, "Preferred roaming list version."),
    "profile": _of(TEXT, "Carrier profile."),
    "rfband": _of(TEXT, "Radio band."),
    "rfband5g": _of(TEXT, "5G radio band."),
    "rfband_5g": _of(TEXT, "5G radio band."),
    "rfchannel": _of(TEXT, "Radio channel number."),
    "roam": _of(TEXT, "Roaming state."),
    "rxchannel": _of(TEXT, "Receive channel number."),
    "service_type": _of(TEXT, "LTE, 5G and the like."),
    "ssid": _of(TEXT, "WiFi network name.", privacy=NAME),
    "txchannel": _of(TEXT, "Transmit channel number."),
    "type": _of(TEXT, "Kind of the record."),
    "alerts.type": _of(TEXT, "Alert-type name."),
    "net_devices.type": _of(TEXT, "mdm (modem), ethernet, wwan and the like."),
    "uid": _of(TEXT, "Identifier of the interface on its device.", privacy=IDENTIFIER),
    "uptime": _of(REAL, "Seconds since the interface connected.", "s", is_tracked=False),
    "ver_pkg": _of(TEXT, "Modem software package."),
    "version": _of(TEXT, "Version."),
    "wimax_realm": _of(TEXT, "WiMAX realm."),
    # --- signal and usage -------------------------------------------------------------------
    "bmask_applied": _of(TEXT, "Band mask in force."),
    "bytes_in": _of(INTEGER, "Bytes received in the period.", "bytes"),
    "bytes_out": _of(INTEGER, "Bytes sent in the period.", "bytes"),
    "net_device_metrics.bytes_in": _of(INTEGER, "Bytes received, running total.", "bytes"),
    "net_device_metrics.bytes_out": _of(INTEGER, "Bytes sent, running total.", "bytes"),
    "cell_id": _of(TEXT, "Cell in use."),
    "cinr": _of(REAL, "Carrier to interference and noise ratio.", "dB"),
    "dbm": _of(REAL, "Received signal strength.", "dBm"),
    "ecio": _of(REAL, "Energy per chip to interference.", "dB"),
    "lac": _of(TEXT, "Location area code."),
    "mcc": _of(TEXT, "Mobile country code."),
    "mnc": _of(TEXT, "Mobile network code."),
    "period": _of(REAL, "Length of the sample period.", "s"),
    "rsrp": _of(REAL, "LTE reference signal received power.", "dBm"),
    "rsrp5g": _of(REAL, "5G reference signal received power.", "dBm"),
    "rsrp5g_highband": _of(REAL, "5G reference signal received power, high band.", "dBm"),
    "rsrp_5g": _of(REAL, "5G reference signal received power.", "dBm"),
    "rsrq": _of(REAL, "LTE reference signal received quality.", "dB"),
    "rsrq5g": _of(REAL, "5G reference signal received quality.", "dB"),
    "rsrq5g_highband": _of(REAL, "5G reference signal received quality, high band.", "dB"),
    "rsrq_5g": _of(REAL, "5G reference signal received quality.", "dB"),
    "rssi": _of(REAL, "Received signal strength indicator.", "dBm"),
    "rssnr": _of(REAL, "Reference signal to noise ratio.", "dB"),
    "signal_percent": _of(REAL, "Signal strength, 0 to 100.", "percent"),
    "signal_strength": _of(REAL, "Signal strength, 0 to 100.", "percent"),
    "sinr": _of(REAL, "Signal to interference and noise ratio.", "dB"),
    "sinr5g": _of(REAL, "5G signal to interference and noise ratio.", "dB"),
    "sinr5g_highband": _of(REAL, "5G signal to interference and noise ratio, high band.", "dB"),
    "sinr_5g": _of(REAL, "5G signal to interference and noise ratio.", "dB"),
    "tac": _of(TEXT, "Tracking area code."),
    # --- places -----------------------------------------------------------------------------
    "accuracy": _of(REAL, "Radius of the fix's uncertainty.", "m"),
    "altitude": _of(REAL, "Height above sea level.", "m"),
    "altitude_meters": _of(REAL, "Height above sea level.", "m"),
    "latitude": _of(REAL, "Latitude, WGS 84.", "deg", privacy=PLACE),
    "longitude": _of(REAL, "Longitude, WGS 84.", "deg", privacy=PLACE),
    "method": _of(TEXT, "How the location was determined: gnss, manual and the like."),
    "mph": _of(REAL, "Speed over ground.", "mph"),
    "net_device_name": _of(TEXT, "Interface in use at the fix."),
    # --- alerts and activity ----------------------------------------------------------------
    "push_id": _of(TEXT, "Identifies the alert: its UUID or, without one, a digest of the push."),
    "alerted_at": _of(TIME, "When the alert was created; if unknown, detected; else received."),
    "received_at": _of(TIME, "When the receiver took the push."),
    "pushed_alerts.type": _of(TEXT, "Alert-type name."),
    "friendly_info": _of(TEXT, "What happened, in words.", privacy=Privacy.TEXT),
    "info": _of(JSON, "Members that belong to the alert type.", privacy=Privacy.TEXT),
    "action.id": _of(TEXT, "Identifies the activity."),
    "action.timestamp": _of(TIME, "When the action happened."),
    "action.type": _of(INTEGER, "Action type number."),
    "action.type_name": _of(TEXT, "Action type in words."),
    "action.before": _of(JSON, "The entity before the action.", privacy=Privacy.TEXT),
    "action.after": _of(JSON, "The entity after the action.", privacy=Privacy.TEXT),
    "action.diff": _of(
        JSON, "What a device changed, [{updates}, [removals]].", privacy=Privacy.TEXT
    ),
    "actor.id": _of(TEXT, "Who acted."),
    "actor.mac": _of(TEXT, "MAC address of a device that acted.", privacy=IDENTIFIER),
    "actor.name": _of(TEXT, "Name of a device that acted.", privacy=Privacy.NAME),
    "actor.type": _of(INTEGER, "Actor type number."),
    "actor.type_name": _of(TEXT, "Actor type in words."),
    "actor.email": _of(TEXT, "E-mail address of the actor.", privacy=IDENTIFIER),
    "object.id": _of(TEXT, "What was acted upon."),
    "object.type": _of(INTEGER, "Object type number."),
    "object.type_name": _of(TEXT, "Object type in words."),
    "object.role": _of(JSON, "Role acted upon: id and name.", privacy=Privacy.TEXT),
    "object.user": _of(JSON, "User acted upon: id and email.", privacy=Privacy.TEXT),
    # --- batteries --------------------------------------------------------------------------
    "batteries.id": _of(TEXT, "Identifier of the battery."),
    "batteries.created_at": _of(TIME, "First record of the battery."),
    "batteries.status": _of(TEXT, "Charging, Discharging or Idle."),
    "batteries.type": _of(TEXT, "Type of power source."),
    "health": _of(INTEGER, "Present capacity over design capacity.", "percent"),
    "milliamps": _of(INTEGER, "Current; negative while discharging.", "mA"),
    "millivolts": _of(INTEGER, "Voltage.", "mV"),
    "rsoc": _of(INTEGER, "Relative state of charge.", "percent"),
    "temp": _of(REAL, "Temperature.", "degrees Celsius"),
    "time_remaining": _of(INTEGER, "Time to empty or full; may be null.", "min"),
    # --- apps and firmware ------------------------------------------------------------------
    "app": _of(RELATION, "App the version belongs to."),
    "app_version": _of(RELATION, "App version the record is about."),
    "built_at": _of(TIME, "When the firmware was built."),
    "default_configuration": _of(JSON, "Settings the firmware starts with.", privacy=Privacy.TEXT),
    "expires_at": _of(TIME, "When the firmware expires."),
    "hash": _of(TEXT, "Digest of the firmware file."),
    "is_deprecated": _of(FLAG, "True when the firmware should not be used any more."),
    "released_at": _of(TIME, "When the firmware was released."),
    "state_details": _of(TEXT, "State in words."),
    "uploaded_at": _of(TIME, "When the firmware was uploaded."),
    "url": _of(TEXT, "Address of the firmware file."),
    "device_apps.uuid": _of(TEXT, "Identifies the app."),
    "device_app_bindings.state": _of(TEXT, "State of the binding."),
    "device_app_states.state": _of(TEXT, "State of the app on the device."),
    "device_app_versions.state": _of(TEXT, "State of the app version."),
    # --- configuration and LANs ---------------------------------------------------------------
    "actual": _of(
        JSON, "Settings in force on the device: [{updates}, [removals]].", privacy=Privacy.TEXT
    ),
    "pending": _of(
        JSON, "Settings not applied yet: [{updates}, [removals]].", privacy=Privacy.TEXT
    ),
    "target": _of(JSON, "Settings of the firmware in force.", privacy=Privacy.TEXT),
    "suspended": _of(FLAG, "True while the service holds back changes or pushes."),
    "synched": _of(FLAG, "True when the device has the settings it should have."),
    "version_number": _of(INTEGER, "Version of the settings."),
    "enabled": _of(FLAG, "True when it is switched on."),
    "ip_address": _of(TEXT, "IPv4 address of the LAN."),
    # --- health, logs, states -----------------------------------------------------------------
    "cellular_health_category": _of(TEXT, "poor, fair, good or excellent."),
    "cellular_health_score": _of(REAL, "Cellular health, 0 to 100.", "points"),
    "exception": _of(TEXT, "Stack trace that came with the entry.", privacy=Privacy.TEXT),
    "level": _of(TEXT, "Severity."),
    "message": _of(TEXT, "What the device wrote.", privacy=Privacy.TEXT),
    "reported_at": _of(TIME, "When the device wrote the entry."),
    "sequence": _of(INTEGER, "Number of the entry on the device."),
    "source": _of(TEXT, "Part of the device that wrote the entry."),
    "router_alerts.type": _of(TEXT, "Alert-type name."),
    "router_state_samples.state": _of(TEXT, "online or offline during the period."),
    # --- v3 -------------------------------------------------------------------------------------
    "links.self": _of(TEXT, "Address of the record; its host varies.", is_tracked=False),
    "relations": _of(IDS, "Records of v3 that this one is linked to."),
    "subscription_ids": _of(IDS, "Assignments of subscriptions to the device."),
    "asset_endpoint_subscriptions.end_time": _of(TIME, "When the assignment ends."),
    "asset_endpoint_subscriptions.start_time": _of(TIME, "When the assignment starts."),
    "asset_endpoint_subscriptions.quantity": _of(INTEGER, "How many the assignment takes."),
    "relation": _of(TEXT, "Record of v3 that this one belongs to."),
    "end_time": _of(TIME, "When the subscription ends."),
    "start_time": _of(TIME, "When the subscription starts."),
    "quantity": _of(INTEGER, "How many were bought."),
    "mac_address": _of(
        TEXT, "MAC address, bare upper-case hexadecimal digits.", privacy=IDENTIFIER
    ),
    "hardware_series": _of(TEXT, "Product series."),
    "is_active": _of(FLAG, "True while the user may log in."),
    "last_login": _of(TIME, "When the user last logged in."),
    "pending_email": _of(TEXT, "E-mail address not confirmed yet.", privacy=IDENTIFIER),
    "timeout": _of(INTEGER, "Minutes after which a collaborator is logged out.", "min"),
    "tdd_mode": _of(TEXT, "Uplink and downlink pattern of the radio."),
    "is_online": _of(FLAG, "True while the radio can be reached."),
    "transmitting": _of(FLAG, "True while the radio transmits."),
    "v3.id": _of(TEXT, "Identifier of the record in v3; not an id of v2."),
    "private_cellular_networks.state": _of(TEXT, "State of the network."),
    "private_cellular_cores.state": _of(TEXT, "State of the packet core."),
    "private_cellular_sims.state": _of(TEXT, "Whether the SIM card is in use."),
    # --- alert rules and push destinations ------------------------------------------------------
    "alert_config_id": _of(TIMEUUID, "Identifies the rule."),
    "associated_accounts": _of(JSON, "Accounts that the rule covers.", privacy=Privacy.TEXT),
    "associated_groups": _of(JSON, "Groups that the rule covers.", privacy=Privacy.TEXT),
    "email_destinations": _of(JSON, "Users who get an e-mail.", privacy=Privacy.TEXT),
    "external_rules": _of(JSON, "Null in all records seen so far.", privacy=Privacy.TEXT),
    "filter_criteria": _of(JSON, "Alert types that the rule covers.", privacy=Privacy.TEXT),
    "http_destinations": _of(JSON, "Push destinations of the rule.", privacy=Privacy.TEXT),
    "last_summary_ts": _of(TIME, "When the last summary was sent."),
    "schedule": _of(TEXT, "When the rule notifies: at once (null), hourly or daily."),
    "settings": _of(JSON, "Thresholds of pooled data usage.", privacy=Privacy.TEXT),
    "destination_config_id": _of(TIMEUUID, "Identifies the destination."),
    "authentication.secret": _of(TEXT, "Always a star: the service never shows it."),
    "endpoint.url": _of(
        TEXT, "Address that receives the pushes.", privacy=Privacy.TEXT, is_foreign_url=True
    ),
    "last_error_at": _of(TIME, "When the last push failed."),
    "last_error_text": _of(TEXT, "Why the last push failed.", privacy=Privacy.TEXT),
    "alert_push_destinations.suspended": _of(FLAG, "True if the service stopped calling it."),
    # --- failovers (the one endpoint whose ids are JSON numbers) ------------------------------
    "account_id": _of(ID, "Account the router belongs to."),
    "carrier_name": _of(TEXT, "Carrier of the interface in use."),
    "current_wan_interface": _of(TEXT, "Interface the router failed over to."),
    "current_wan_priority": _of(REAL, "Priority of the interface in use; lower is preferred."),
    "data_usage": _of(REAL, "Bytes moved on the backup so far.", "bytes"),
    "elapsed_time": _of(REAL, "Length of the failover so far.", "s"),
    "group_id": _of(ID, "Group the router belongs to."),
    "group_name": _of(TEXT, "Name of the group.", privacy=NAME),
    "percent_data_cap": _of(REAL, "Share of the data cap used.", "percent"),
    "previous_wan_interface": _of(TEXT, "Interface that was lost."),
    "previous_wan_priority": _of(REAL, "Priority of the lost interface; lower is preferred."),
    "router_id": _of(ID, "Router that failed over."),
    "router_name": _of(TEXT, "Name of the router.", privacy=NAME),
    "tenant_id": _of(TEXT, "Tenant the router belongs to."),
    "uuid": _of(TEXT, "Identifies the failover."),
}
