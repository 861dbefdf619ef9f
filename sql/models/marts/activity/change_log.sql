-- Grain: one row per activity that changed something.
-- Kind: table.

with diffs as (
    select
        activity_id,
        count(*) as members_changed,
        {{ joined_text("concat(member, ': ', coalesce(before_value, 'none'), ' -> ', coalesce(after_value, 'none'))", '; ', 'member') }} as changes
    from {{ ref('int_activity_changes') }}
    group by activity_id
)

select
    l.activity_id,
    l.actor_id,
    l.object_id,

    l.action_type,
    l.actor_type,
    l.actor_email,
    l.object_type,
    coalesce(
        {{ json_text('l.entity_after', 'name') }},
        {{ json_text('l.entity_before', 'name') }},
        {{ json_text('l.object_user', 'email') }}
    ) as object_name,
    d.changes,
    concat_ws(
        ' ',
        coalesce(l.actor_email, concat_ws(' ', l.actor_type, l.actor_id)),
        concat(l.action_type, ':'),
        l.object_type,
        coalesce({{ json_text('l.entity_after', 'name') }}, {{ json_text('l.entity_before', 'name') }}, l.object_id)
    ) as summary,

    coalesce(d.members_changed, 0) as members_changed,

    l.acted_at

from {{ ref('stg_activity_logs') }} as l
left join diffs as d on l.activity_id = d.activity_id
where coalesce(l.action_type, 'unknown') not in ('login', 'logout', 'login failed', 'request', 'report', 'download')
