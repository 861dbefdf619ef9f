-- Grain: one row per packet core, as it is now.
-- Kind: view.

select
    account_profile,
    id as core_id,
    network_id,

    name as core_name,
    state as core_state,

    valid_from,
    _loaded_at as loaded_at

from {{ source('raw', 'private_cellular_cores') }}
where valid_to is null
