"""Alert types, by the names of the service contract."""

from importlib.resources import files
from typing import Final


def contract_names(kind: str) -> list[str]:
    """Return a list of names of the service contract, in its order."""
    return (files("fleetlake.settings") / f"{kind}.txt").read_text(encoding="utf-8").splitlines()


_RAISED: Final = """
    batt_health_alert batt_over_current_alert batt_over_temp_alert batt_over_voltage_alert
    batt_sys_low_power_alert batt_sys_power_off_alert config_change connection_state
    cpu_utilization data_cap_threshold ethernet_wan_connected ethernet_wan_disconnected
    ethernet_wan_plugged ethernet_wan_unplugged failover_event geofence_proximity_change
    gpio_state_change ip_banned ipsec_tunnel_down ipsec_tunnel_up ipverify_event login_success
    memory_utilization modem_wan_connected modem_wan_disconnected modem_wan_standby
    reboot_status_change router_group_change router_sdk_app_execution_state_changed
    unrecognized_mac_alert wan_service_type wifi_client_state_change account_locked
    acs_unlicensed_devices mgr_login_failure http_push_failure http_destination_suspended
"""
ALERT_TYPES: Final = tuple(_RAISED.split())
"""The alert types that the simulator raises, some of the contract's; the position is the code."""

CODE: Final = {name: code for code, name in enumerate(ALERT_TYPES)}


WAN_STATUS_ALERTS: Final = frozenset(
    name
    for name in ALERT_TYPES
    if name.startswith(("modem_wan_", "ethernet_wan_")) or name == "wan_status_change"
)
"""The types that share the contract's WAN status shape of `info`."""

CONTRACT_ALERT_TYPES: Final = frozenset(contract_names("alert_types"))
"""Every alert type the contract lists; `alt_` marks those of the alternate platform."""
