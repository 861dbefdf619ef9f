"""Types of actions, actors and objects, as the service contract lists them."""

from typing import Final


def _listed(names: str) -> tuple[str, ...]:
    return tuple(" ".join(name.split()) for name in names.split(","))


ACTION_TYPES: Final = _listed(
    """
    create, delete, update, request, report, login, logout, register, unregister, activate,
    license, share, lock to imei, change plan, suspend, deactivate, sim activate, failed,
    expired, login failed, passed, error, enable, disable, add, remove, download, unshare,
    account locked
    """
)
ACTOR_TYPES: Final = _listed(
    """
    system, legacy user, api key, router, sso user, access point, API 3.0 token
    """
)
OBJECT_TYPES: Final = _listed(
    """
    rome account, legacy user, group, router, schedule, sso user, task, api key, net device,
    notifier, feature binding, rome authorization, remote connection, remote connection profile,
    remote lan management, sso account, access point, sso authorization, network, data plan,
    location, data_pact, production_db_entity, production_db_txn, geofence, live stats
    connection, speedtest, site, insights_report, site_group, sim, resource, svc_policy, sync,
    svc_idp, svc_idp_user_mapping, iota_profile, pcn_cell, pcn_network, pcn_simcard,
    pcn_mobility_gateway, pcn_certificate, pcn_location, pcn_cell_ap_log, pcn_simgroup,
    job_modem_fw_upgrade, api_v3_token, noncloud_license_file, csi_test, svc_bonded_wan,
    location_service, pcn_lan_profile, feature, svc_resource_template, carrier_account,
    artifact, saml_integration, idp_certificate, custom_role, custom_role_authorization,
    pcn_cell_config, notification_configuration, virtual_device_artifact
    """
)
"""The code of an activity type is its position here, counted from 1: the contract has no codes."""
