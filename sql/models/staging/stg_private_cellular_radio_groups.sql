-- Grain: one row per radio group, as it is now.
-- Kind: view.

select
    account_profile,
    id as radio_group_id,
    network_id,

    name as radio_group_name,

    valid_from,
    _loaded_at as loaded_at

from {{ source('raw', 'private_cellular_radio_groups') }}
where valid_to is null
