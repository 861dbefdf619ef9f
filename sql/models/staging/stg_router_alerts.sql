-- Grain: one row per alert of a device.
-- Kind: view.

select
    account_profile,
    created_at_timeuuid as alert_id,
    router_id,

    {{ neutral_word('type') }} as alert_type,
    friendly_info as description,
    info,

    created_at,
    detected_at,
    _loaded_at as loaded_at

from {{ source('raw', 'router_alerts') }}
