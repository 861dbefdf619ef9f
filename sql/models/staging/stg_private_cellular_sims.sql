-- Grain: one row per SIM card, as it is now.
-- Kind: view.

select
    account_profile,
    id as sim_id,
    network_id,

    iccid,
    imsi,
    state as sim_state,

    valid_from,
    _loaded_at as loaded_at

from {{ source('raw', 'private_cellular_sims') }}
where valid_to is null
