-- Grain: one row per radio status, as it is now.
-- Kind: view.

select
    account_profile,
    id as radio_status_id,
    radio_id,

    is_online,
    transmitting as is_transmitting,

    valid_from,
    _loaded_at as loaded_at

from {{ source('raw', 'private_cellular_radio_statuses') }}
where valid_to is null
