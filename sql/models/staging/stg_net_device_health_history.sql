-- Grain: one row per scored interface and version of its score.
-- Kind: view.

select
    account_profile,
    id as net_device_health_id,
    net_device_id,

    cellular_health_category as health_category,
    cellular_health_score as health_score,

    valid_from,
    valid_to,
    _loaded_at as loaded_at

from {{ source('raw', 'net_device_health') }}
