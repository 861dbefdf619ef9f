-- Grain: one row per group and version of its record.
-- Kind: view.

select
    account_profile,
    id as group_id,
    account_id,
    product_id,
    target_firmware_id,

    name as group_name,
    device_type,
    configuration,

    valid_from,
    valid_to,
    _loaded_at as loaded_at

from {{ source('raw', 'groups') }}
