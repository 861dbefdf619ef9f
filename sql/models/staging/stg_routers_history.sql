-- Grain: one row per router or access point and version of its record.
-- Kind: view.

select
    account_profile,
    id as router_id,
    account_id,
    group_id,
    product_id,
    actual_firmware_id,
    target_firmware_id,
    configuration_manager_id,
    last_known_location_id as location_id,

    name as router_name,
    description,
    custom1,
    custom2,
    asset_id as asset_tag,
    device_type,
    full_product_name,
    serial_number,
    mac,
    ipv4_address,
    lans,
    locality as time_zone,
    config_status,
    state as connection_state,
    reboot_required as is_reboot_required,
    upgrade_pending as is_upgrade_pending,

    created_at,
    updated_at,
    state_updated_at,
    valid_from,
    valid_to,
    _loaded_at as loaded_at

from {{ source('raw', 'routers') }}
