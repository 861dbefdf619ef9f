-- Grain: one row per alert or activity that is relevant to security.
-- Kind: table.

-- Most alerts and activities are of other types, so these are left out first.
with events as (
    select
        concat('alert ', a.alert_id) as event_id,
        'alert' as source,
        t.severity,
        a.alert_type as event_type,
        a.router_id,
        a.account_id,
        coalesce(
            {{ json_text('a.info', 'user') }},
            {{ json_text('a.info', 'info.user') }},
            case when a.alert_type = 'mgr_login_failure' then {{ login_user('a.description') }} end
        ) as actor,
        coalesce(
            {{ json_text('a.info', 'ip') }},
            {{ json_text('a.info', 'info.ip') }},
            case when a.alert_type in ('mgr_login_failure', 'ip_banned') then {{ login_address('a.description') }} end
        ) as ip_address,
        a.description,
        a.detected_at as occurred_at
    from {{ ref('stg_alerts') }} as a
    inner join {{ ref('security_event_types') }} as t
        on t.source = 'alert' and a.alert_type = t.event_type

    union all

    select
        concat('activity ', l.activity_id) as event_id,
        'activity' as source,
        t.severity,
        l.action_type as event_type,
        null as router_id,
        null as account_id,
        coalesce(l.actor_email, l.actor_id) as actor,
        null as ip_address,
        concat(l.action_type, ': ', coalesce(l.object_type, ''), ' ', coalesce(l.object_id, '')) as description,
        l.acted_at as occurred_at
    from {{ ref('stg_activity_logs') }} as l
    inner join {{ ref('security_event_types') }} as t
        on t.source = 'activity' and l.action_type = t.event_type
)

select
    event_id,
    e.router_id,
    coalesce(e.account_id, r.account_id) as account_id,
    r.group_id,

    r.router_name,
    coalesce(a.account_name, r.account_name) as account_name,
    r.group_name,
    source,
    severity,
    event_type,
    actor,
    ip_address,
    description,

    occurred_at

from events as e
left join {{ ref('int_routers') }} as r on e.router_id = r.router_id
left join {{ present_names(ref('stg_accounts'), 'account') }} as a on e.account_id = a.account_id
