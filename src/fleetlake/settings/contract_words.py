"""The words of the service contract that a vendor may have written otherwise.

The contract writes vendor-named parts (names of headers, of alert types and of objects) with
neutral words and does not say which these are, so each name of these kinds counts.
"""

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
