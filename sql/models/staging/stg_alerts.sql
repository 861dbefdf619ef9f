-- Grain: one row per alert: polled or, until a poll reads it, pushed.
-- Kind: view.

select
    account_profile,
    created_at_timeuuid as alert_id,
    account_id,
    router_id,

    coalesce({{ neutral_word('type') }}, 'unknown') as alert_type,
    friendly_info as description,
    info,

    {{ detected('detected_at', 'created_at') }} as detected_at,
    {{ is_odd_detection('detected_at', 'created_at') }} as is_odd_detection,
    created_at,
    _loaded_at as loaded_at

from {{ source('raw', 'alerts') }}

union all

select
    account_profile,
    alert_id,
    account_id,
    router_id,

    alert_type,
    description,
    info,

    detected_at,
    is_odd_detection,
    created_at,
    loaded_at

from {{ ref('stg_pushed_alerts') }}
where not is_polled
