"""Which alert types a rule covers, by subject. Names are those of the service contract.

The first four groups are the types that the SQL models read; a test compares them. The models
strip the prefix `alt_`, so the types that also exist for the alternate platform are listed twice.
"""

from collections.abc import Iterable
from difflib import get_close_matches

from fleetlake.alerting.push_destinations import FAILURE_ALERTS
from fleetlake.errors import UsageError

_GROUPS = {
    "failover": "failover_event",
    "wan": """
        alt_ethernet_wan_connected alt_ethernet_wan_disconnected alt_modem_wan_connected
        alt_modem_wan_disconnected ethernet_wan_connected ethernet_wan_disconnected
        ethernet_wan_standby ethernet_wan_unplugged modem_wan_connected modem_wan_disconnected
        modem_wan_standby modem_wan_unplugged wwan_connected wwan_disconnected
        wwan_network_unavailable wwan_standby
    """,
    "battery": """
        batt_health_alert batt_over_current_alert batt_over_temp_alert batt_over_voltage_alert
        batt_sys_low_power_alert batt_sys_power_off_alert
    """,
    "availability": "connection_state",
    "location": """
        device_location_unknown geofence_proximity_change location_service_change
    """,
    "security": """
        account_locked config_change duplicate_ssid ip_banned ips_activity ips_enable_disable
        ips_eng_failure ips_mode_change login_success mgr_login_failure
        remote_connection_request scep_enrollment_failure sim_door_event span_enabled
        unrecognized_mac_alert
    """,
}
TYPE_GROUPS = {name: tuple(types.split()) for name, types in _GROUPS.items()}
TYPE_GROUPS["pushes"] = FAILURE_ALERTS
"""Alert types by the word that names a group of them on the command line."""

_ALIKE = ("ethernet_wan_plugged", "modem_wan_plugged", "wwan_network_available")
"""Types of no group that look like misspelt ones of a group."""

DEFAULT_GROUPS = ("failover", "wan", "battery", "availability", "location")


def chosen_types(words: Iterable[str]) -> tuple[str, ...]:
    """Return the alert types that words name: types, and groups of types. Each once, sorted.

    A type that no group holds is taken as it is: the service knows more types. Raises: UsageError
    for a word that looks like a misspelt group or type.

    >>> chosen_types(["availability", "reboot_status_change"])
    ('connection_state', 'reboot_status_change')
    """
    found = {name for word in words for name in TYPE_GROUPS.get(word, (word,))}
    known = {name for names in (*TYPE_GROUPS.values(), _ALIKE) for name in names}
    for name in sorted(found - known):
        nearest = get_close_matches(name, [*TYPE_GROUPS, *known], n=1, cutoff=0.9)
        if nearest or "_" not in name:
            raise UsageError(
                f"There is no alert type {name!r}.",
                remedy=f"Did you mean {nearest[0]}?"
                if nearest
                else f"The groups of types are: {', '.join(TYPE_GROUPS)}.",
            )
    return tuple(sorted(found))
