-- Grain: one row per alert that the service pushed.
-- Kind: view.

select
    p.account_profile,
    p.push_id,
    coalesce(p.created_at_timeuuid, p.push_id) as alert_id,
    p.account_id,
    p.router_id,

    coalesce({{ neutral_word('p.type') }}, 'unknown') as alert_type,
    p.friendly_info as description,
    p.info,
    c.push_id is not null as is_polled,

    {{ detected('p.detected_at', 'p.alerted_at') }} as detected_at,
    {{ is_odd_detection('p.detected_at', 'p.alerted_at') }} as is_odd_detection,
    p.alerted_at,
    coalesce(p.created_at, p.alerted_at) as created_at,
    p.received_at,
    p._loaded_at as loaded_at

from {{ source('raw', 'pushed_alerts') }} as p
left join {{ source('meta', 'confirmations') }} as c on p.push_id = c.push_id
