-- Grain: one row per device configuration, as it is now.
-- Kind: view.

select
    account_profile,
    id as configuration_manager_id,
    account_id,
    router_id,

    try_cast(version_number as bigint) as version_number,
    suspended as is_suspended,
    synched as is_synched,
    configuration as individual_configuration,
    pending as pending_configuration,
    actual as actual_configuration,
    target as target_configuration,

    valid_from,
    _loaded_at as loaded_at

from {{ source('raw', 'configuration_managers') }}
where valid_to is null
