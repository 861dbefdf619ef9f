"""The vendor's words for the neutral ones of the service contract, and where they are translated.

The contract writes vendor-named parts with neutral words: headers, some alert types, the prefix of
the alternate platform's, and types of objects in activity logs. One table says what the vendor
calls them: `[vendor_words]` in `fleetlake.toml`, or the file that FLEETLAKE_VENDOR_WORDS names.

`raw` holds the words that the service sent. The staging views translate them
(`sql/macros/vendor_words.sql`), and so does the code that reads `raw` without them. If words were
translated as they arrive, `raw` would hold both kinds as soon as the table is set or corrected, and
a pushed alert would no longer equal the polled one. This way a new table needs no load: it changes
the digest of the SQL project, so the next build is a full one. A neutral word that arrives stays
as it is. What is sent to the service (headers, alert rules) is translated as it is sent.

The contract does not say which words are neutral ones, so each name of these kinds counts.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Any

from fleetlake.machine.setting_files import read_toml

KEY_HEADERS = ("X-PORTAL-API-ID", "X-PORTAL-API-KEY", "X-MGR-API-ID", "X-MGR-API-KEY")
"""The headers of the four keys, in the order of the keys."""

SIGNATURE_HEADER = "X-PORTAL-Signature"

ALTERNATE = "alt_"
"""How an alert type of the alternate platform begins."""

ROOTS = ("base_url", "v3_base_url")

_ALERT_TYPES = """
    account_locked acs_expires_in_15_days acs_expires_in_180_days acs_expires_in_30_days
    acs_expires_in_5_days acs_expires_in_60_days acs_expires_in_90_days acs_noncompliant_devices
    acs_unlicensed_devices acs_unlicensed_in_15_days acs_unlicensed_in_5_days adc_event
    batt_backup_power_engaged batt_health_alert batt_maintenance_cycle_ended
    batt_maintenance_cycle_started batt_over_current_alert batt_over_temp_alert
    batt_over_voltage_alert batt_sys_low_power_alert batt_sys_power_off_alert config_change
    config_rejected config_unacked connection_state cpu_utilization csi_test_error
    csi_test_failed csi_test_passed csi_test_started custom_alert data_cap_threshold
    device_location_unknown duplicate_ssid ethernet_wan_connected ethernet_wan_disconnected
    ethernet_wan_plugged ethernet_wan_standby ethernet_wan_unplugged failover_event
    firmware_upgrade geofence_proximity_change gpio_state_change http_destination_suspended
    http_push_failure ip_banned ips_activity ips_enable_disable ips_eng_failure ips_mode_change
    ipsec_tunnel_down ipsec_tunnel_restored ipsec_tunnel_up ipverify_event
    location_service_change login_success memory_utilization mgr_login_failure
    modem_firmware_summary_create modem_wan_connected modem_wan_disconnected modem_wan_plugged
    modem_wan_standby modem_wan_unplugged os_firmware_summary_create partner_iot_disconnect
    pcn_ap_connection_state pcn_ap_ipsec_setup_failure pcn_ap_ntp_syn_failure
    pcn_ap_radio_status pcn_core_ipsec_connection_status_changed pcn_core_ntp_sync_failure
    pcn_core_port_status_changed pcn_core_s1_connection_state pcn_core_s1_setup_failure
    pcn_core_ue_dedicated_bearer_alloc_failure pcn_sas_grant_expired pcn_sas_grant_success
    pcn_sas_grant_suspended pcn_sas_grant_terminated pcn_sas_no_response pdp_account_overage
    pdp_router_overage reboot_status_change remote_connection_destroyed
    remote_connection_request router_group_change router_sdk_app_execution_state_changed
    router_sdk_mismatched_app_action scep_enrollment_failure scep_enrollment_success
    sec_tls_tunnel sim_door_event span_enabled sustained_system_overload system_error
    thermal_exceeds_limit tunnel_limit unrecognized_mac_alert vrrp_new_backup vrrp_new_fault
    vrrp_new_master wall_power_restored wan_service_type wan_status_change
    wifi_client_state_change wwan_connected wwan_disconnected wwan_network_available
    wwan_network_unavailable wwan_standby
"""
ALERT_TYPES = frozenset(_ALERT_TYPES.split())

_OBJECT_TYPES = """
    access point, api key, api_v3_token, artifact, carrier_account, csi_test, custom_role,
    custom_role_authorization, data plan, data_pact, feature, feature binding, geofence, group,
    idp_certificate, insights_report, iota_profile, job_modem_fw_upgrade, legacy user,
    live stats connection, location, location_service, net device, network,
    noncloud_license_file, notification_configuration, notifier, pcn_cell, pcn_cell_ap_log,
    pcn_cell_config, pcn_certificate, pcn_lan_profile, pcn_location, pcn_mobility_gateway,
    pcn_network, pcn_simcard, pcn_simgroup, production_db_entity, production_db_txn,
    remote connection, remote connection profile, remote lan management, resource, rome account,
    rome authorization, router, saml_integration, schedule, sim, site, site_group, speedtest,
    sso account, sso authorization, sso user, svc_bonded_wan, svc_idp, svc_idp_user_mapping,
    svc_policy, svc_resource_template, sync, task, virtual_device_artifact
"""
OBJECT_TYPES = frozenset(name.strip() for name in _OBJECT_TYPES.split(","))
"""Types of actors and objects in activity logs."""


TABLE = "vendor_words"

HEADERS = (*KEY_HEADERS, SIGNATURE_HEADER)
_KNOWN = (*HEADERS, ALTERNATE, *ROOTS, *sorted(ALERT_TYPES | OBJECT_TYPES))

_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}")
_WORD = re.compile(r"[0-9A-Za-z][0-9A-Za-z _.:-]{0,63}")
_RESERVED = frozenset(
    {
        *("accept", "accept-encoding", "authorization", "cache-control", "connection", "cookie"),
        *("content-length", "content-type", "host", "transfer-encoding", "user-agent"),
    }
)


@dataclass(frozen=True)
class VendorWords:
    """A translation between the contract's words and the vendor's; a word without one is itself.

    >>> words = VendorWords({"alt_": "nx_", "mgr_login_failure": "acme_login_failure"})
    >>> words.sent("alt_modem_wan_connected"), words.neutral("acme_login_failure")
    ('nx_modem_wan_connected', 'mgr_login_failure')
    """

    words: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def _neutral(self) -> dict[str, str]:
        return {theirs: ours for ours, theirs in self.words.items()}

    @property
    def alternate(self) -> str:
        """The prefix of the alternate platform's alert types."""
        return self.header(ALTERNATE)

    def header(self, name: str) -> str:
        """Return the vendor's name of a header."""
        return self.words.get(name, name)

    def sent(self, name: str) -> str:
        """Return the vendor's name of an alert type, or of a type of object."""
        if name.startswith(ALTERNATE):
            return self.alternate + self.sent(name.removeprefix(ALTERNATE))
        return self.words.get(name, name)

    def neutral(self, name: str) -> str:
        """Return the contract's name of an alert type, or of a type of object."""
        if name.startswith((self.alternate, ALTERNATE)):
            prefix = self.alternate if name.startswith(self.alternate) else ALTERNATE
            return ALTERNATE + self.neutral(name.removeprefix(prefix))
        return self._neutral.get(name, name)

    def either(self, names: Iterable[str]) -> list[str]:
        """Return names of types with the vendor's names of them: `raw` may hold both."""
        return sorted({form for name in names for form in (name, self.sent(name))})

    def types(self) -> dict[str, str]:
        """Return the contract's names of alert types and of types of objects, by the vendor's."""
        return {
            theirs: ours
            for theirs, ours in sorted(self._neutral.items())
            if ours in ALERT_TYPES | OBJECT_TYPES
        }


def read_vendor_words(value: object) -> object:
    """Return the table of a setting: the content of a file if it is a path; "" is an empty table.

    Raises: ValueError if the file cannot be read.
    """
    if not isinstance(value, str | Path):
        return value
    if not str(value):
        return {}
    try:
        found = read_toml(Path(value))
    except (OSError, ValueError) as error:
        raise ValueError(f"{value} cannot be read as a TOML file: {error}") from None
    table = found.get(TABLE, found)
    if not isinstance(table, dict):
        raise ValueError(f"{TABLE} in {value} is not a table")
    return table


def checked_vendor_words(words: Mapping[str, Any]) -> dict[str, str]:
    """Return the words that differ from the contract's. Raises: ValueError saying what is wrong."""
    for name, word in words.items():
        _require_known(name)
        _require_usable(name, word)
    _require_distinct([words.get(name, name).lower() for name in HEADERS], "headers")
    types = [words.get(name, name) for name in sorted(ALERT_TYPES)]
    _require_distinct(types, "alert types")
    _require_distinct([words.get(name, name).lower() for name in OBJECT_TYPES], "object types")
    prefix = words.get(ALTERNATE, ALTERNATE)
    if prefix[-1] not in "_-.":
        raise ValueError(f"the vendor's word for {ALTERNATE} must end in _, - or .")
    if mixed := [name for name in types if name.startswith((prefix, ALTERNATE))]:
        raise ValueError(f"the alert type {mixed[0]} begins like those of the alternate platform")
    return {name: word for name, word in words.items() if word != name}


def _require_known(name: str) -> None:
    if name in _KNOWN:
        return
    by_case = {known.lower(): known for known in _KNOWN}
    nearest = get_close_matches(name.lower(), by_case, n=1)
    meant = f"; did you mean {by_case[nearest[0]]}?" if nearest else ""
    raise ValueError(f"{name[:64]!r} is not a word of the service contract{meant}")


def _require_usable(name: str, word: object) -> None:
    if not isinstance(word, str):
        raise ValueError(f"the vendor's word for {name} is not a text")
    if name in HEADERS:
        if not _HEADER.fullmatch(word) or word.lower() in _RESERVED:
            raise ValueError(f"the vendor's word for {name} is not a usable name of a header")
    elif name not in ROOTS and not _WORD.fullmatch(word):
        raise ValueError(
            f"the vendor's word for {name} must have 1 to 64 letters, digits, spaces or _.:-"
        )


def _require_distinct(words: Iterable[str], kind: str) -> None:
    seen: set[str] = set()
    for word in words:
        if word in seen:
            raise ValueError(f"two {kind} would have the same name, {word}")
        seen.add(word)
