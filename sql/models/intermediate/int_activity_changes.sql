-- Grain: one row per activity and member of the entity whose value differs.
-- Kind: view.

with entries as (
    select activity_id, 'before' as side, {{ json_entries('entity_before') }}
    from {{ ref('stg_activity_logs') }}
    where entity_before is not null
    union all
    select activity_id, 'after' as side, {{ json_entries('entity_after') }}
    from {{ ref('stg_activity_logs') }}
    where entity_after is not null
),

paired as (
    select
        activity_id,
        member,
        max(case when side = 'before' then member_value end) as before_value,
        max(case when side = 'after' then member_value end) as after_value
    from entries
    group by activity_id, member
)

select *
from paired
where coalesce(before_value, '') <> coalesce(after_value, '')
