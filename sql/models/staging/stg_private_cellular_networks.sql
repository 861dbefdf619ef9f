-- Grain: one row per private network, as it is now.
-- Kind: view.

select
    account_profile,
    id as network_id,

    name as network_name,
    mcc,
    mnc,
    state as network_state,

    valid_from,
    _loaded_at as loaded_at

from {{ source('raw', 'private_cellular_networks') }}
where valid_to is null
