-- Grain: one row per router and span of 24 hours or more without a fix.
-- Kind: table.

-- So long a span crosses a midnight, so it lies between two days with fixes.
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
        s.last_fixed_at,
        s.next_fixed_at,
        {{ seconds_between('s.last_fixed_at', 'coalesce(s.next_fixed_at, a.known_until)') }} as gap_s
    from spans as s
    cross join {{ ref('int_as_of') }} as a
)

select
    m.router_id,
    r.router_name,
    m.next_fixed_at is null as is_open,
    round(m.gap_s / 3600, 2) as gap_hours,
    m.last_fixed_at,
    m.next_fixed_at

from measured as m
left join {{ ref('stg_routers') }} as r on m.router_id = r.router_id
where m.gap_s >= {{ var('no_fix_s') }}
