-- Grain: one row per router and span of 24 hours or more without a fix.
-- Kind: table.

-- A span that long crosses midnight, so it lies between two days with fixes. For a device that left
-- the service, no further fix is expected.
with spans as (
    select
        router_id,
        last_fixed_at,
        lead(first_fixed_at) over (partition by router_id order by fix_date) as next_fixed_at
    from {{ ref('int_fix_days') }}
),

measured as (
    select
        s.router_id,
        r.account_id,
        r.group_id,
        r.router_name,
        r.account_name,
        r.group_name,
        s.next_fixed_at is null and r.left_at is null as is_open,
        s.last_fixed_at,
        s.next_fixed_at,
        {{ seconds_between('s.last_fixed_at',
            'coalesce(s.next_fixed_at, least(a.known_until, coalesce(r.left_at, a.known_until)))') }} as gap_s
    from spans as s
    cross join {{ ref('int_as_of') }} as a
    left join {{ ref('int_routers') }} as r on s.router_id = r.router_id
)

select
    router_id,
    account_id,
    group_id,
    router_name,
    account_name,
    group_name,
    is_open,
    round(gap_s / 3600, 2) as gap_hours,
    last_fixed_at,
    next_fixed_at

from measured
where gap_s >= {{ var('no_fix_s') }}
