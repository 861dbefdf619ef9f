-- Grain: one row per alert.
-- Kind: view.

select
    account_profile,
    created_at_timeuuid as alert_id,
    account_id,
    router_id,

    coalesce(type, 'unknown') as alert_type,
    friendly_info as description,
    info,

    coalesce(detected_at, created_at) as detected_at,
    created_at,
    _loaded_at as loaded_at

from {{ source('raw', 'alerts') }}
