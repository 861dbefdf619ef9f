-- Grain: one row per activity other than logins, reports and requests.
-- Kind: table.

with diffs as (
    select
        activity_id,
        count(*) as members_changed,
        {{ joined_text("concat(member, ': ', before_words, ' -> ', coalesce(after_value, 'none'))", '; ', 'member') }} as changes
    from (
        select
            *,
            case when is_before_known then coalesce(before_value, 'none') else 'unknown' end as before_words
        from {{ ref('int_activity_changes') }}
    ) as c
    group by activity_id
),

-- Most activity has only the id of its object, so the name is looked up as of that time.
named as (
    select
        l.*,
        case when l.object_type in ('router', 'access point') then try_cast(l.object_id as bigint) end as router_id,
        coalesce(
            nullif({{ json_text('l.object_user', 'email') }}, ''),
            {{ json_text('l.entity_after', 'name') }},
            {{ json_text('l.entity_before', 'name') }},
            r.router_name,
            g.group_name
        ) as object_name
    from {{ ref('stg_activity_logs') }} as l
    left join {{ ref('int_router_spans') }} as r
        on l.object_type in ('router', 'access point')
        and l.object_id = cast(r.router_id as {{ dbt.type_string() }})
        and {{ holds_at('r', 'l.acted_at') }}
    left join {{ ref('int_group_spans') }} as g
        on l.object_type = 'group'
        and l.object_id = cast(g.group_id as {{ dbt.type_string() }})
        and {{ holds_at('g', 'l.acted_at') }}
)

select
    l.activity_id,
    l.actor_id,
    l.object_id,
    l.router_id,

    i.router_name,
    i.account_name,
    i.group_name,
    l.action_type,
    l.actor_type,
    l.actor_email,
    l.actor_name,
    l.object_type,
    l.object_name,
    d.changes,
    concat_ws(
        ' ',
        coalesce(l.actor_email, concat_ws(' ', l.actor_type, coalesce(l.actor_name, l.actor_mac, l.actor_id))),
        concat(coalesce(l.action_type, 'unknown action'), ':'),
        l.object_type,
        coalesce(l.object_name, l.object_id)
    ) as summary,

    coalesce(d.members_changed, 0) as members_changed,

    l.acted_at

from named as l
left join diffs as d on l.activity_id = d.activity_id
left join {{ ref('int_routers') }} as i on l.router_id = i.router_id
where coalesce(l.action_type, 'unknown') not in ('login', 'logout', 'login failed', 'request', 'report')
