"""Alert types, by the names of the service contract."""

from typing import Final

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

_CONTRACT: Final = """
    account_locked acs_expires_in_15_days acs_expires_in_180_days acs_expires_in_30_days
    acs_expires_in_5_days acs_expires_in_60_days acs_expires_in_90_days acs_noncompliant_devices
    acs_unlicensed_devices acs_unlicensed_in_15_days acs_unlicensed_in_5_days adc_event
    alt_ethernet_wan_connected alt_ethernet_wan_disconnected alt_modem_wan_connected
    alt_modem_wan_disconnected alt_reboot_status_change alt_vrrp_new_backup alt_vrrp_new_fault
    alt_vrrp_new_master batt_backup_power_engaged batt_health_alert batt_maintenance_cycle_ended
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
CONTRACT_ALERT_TYPES: Final = frozenset(_CONTRACT.split())
"""Every alert type the contract lists; `alt_` marks those of the alternate platform."""
