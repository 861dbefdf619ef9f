-- Grain: one row per activity and member of the entity whose value was changed or removed.
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
),

-- A change that a device made has `[{updates}, [removals]]` instead, without the values before it.
diffs as (
    select activity_id, {{ diff_updates('entity_diff') }} as updates, {{ diff_removals('entity_diff') }} as removals
    from {{ ref('stg_activity_logs') }}
    where entity_diff is not null and entity_before is null and entity_after is null
),

updated as (
    select activity_id, {{ json_entries('updates') }}
    from diffs
    where updates is not null
),

removed as (
    select activity_id, {{ exploded('removals') }} as path
    from diffs
)

select activity_id, member, before_value, after_value, true as is_before_known
from paired
where coalesce({{ without_hosts('before_value') }}, '') <> coalesce({{ without_hosts('after_value') }}, '')

union all

select activity_id, member, null as before_value, member_value as after_value, false as is_before_known
from updated

union all

-- A path such as ["wan", "rules", 0] is the member wan.rules.0.
select
    activity_id,
    replace(replace(replace(replace(replace(path, '[', ''), ']', ''), '"', ''), ' ', ''), ',', '.') as member,
    null as before_value,
    null as after_value,
    false as is_before_known
from removed
