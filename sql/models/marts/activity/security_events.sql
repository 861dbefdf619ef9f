-- Grain: one row per alert or activity that is relevant to security.
-- Kind: table.

with events as (
    select
        concat('alert ', alert_id) as event_id,
        'alert' as source,
        alert_type as event_type,
        router_id,
        account_id,
        coalesce({{ json_text('info', 'user') }}, {{ json_text('info', 'info.user') }}) as actor,
        coalesce({{ json_text('info', 'ip') }}, {{ json_text('info', 'info.ip') }}) as ip_address,
        description,
        detected_at as occurred_at
    from {{ ref('stg_alerts') }}

    union all

    select
        concat('activity ', activity_id) as event_id,
        'activity' as source,
        action_type as event_type,
        null as router_id,
        null as account_id,
        coalesce(actor_email, actor_id) as actor,
        null as ip_address,
        concat(action_type, ': ', coalesce(object_type, ''), ' ', coalesce(object_id, '')) as description,
        acted_at as occurred_at
    from {{ ref('stg_activity_logs') }}
)

select
    e.event_id,
    e.router_id,
    e.account_id,

    e.source,
    t.severity,
    e.event_type,
    e.actor,
    e.ip_address,
    e.description,

    e.occurred_at

from events as e
inner join {{ ref('security_event_types') }} as t
    on e.source = t.source and e.event_type = t.event_type
