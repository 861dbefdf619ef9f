-- Grain: one row per radio, as it is now.
-- Kind: view.

select
    account_profile,
    id as radio_id,
    network_id,

    name as radio_name,
    tdd_mode,

    valid_from,
    _loaded_at as loaded_at

from {{ source('raw', 'private_cellular_radios') }}
where valid_to is null
