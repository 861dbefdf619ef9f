-- Grain: one row per router and UTC day that the lake knows about.
-- Kind: table.

with spans as (
    select
        r.router_id,
        r.router_name,
        greatest(coalesce(r.created_at, a.known_from), a.known_from) as known_from,
        a.known_until
    from {{ ref('stg_routers') }} as r
    cross join {{ ref('int_as_of') }} as a
    where r.device_type = 'router'
),

days as (
    select
        *,
        {{ explode_days('cast(known_from as date)', 'cast(known_until as date)') }} as wan_date
    from spans
    where known_from < known_until
),

clipped as (
    select
        router_id,
        router_name,
        wan_date,
        greatest(known_from, {{ day_start('wan_date') }}) as from_at,
        least(known_until, {{ day_start('wan_date') }} + interval 1 day) as until_at
    from days
),

measured as (
    select
        c.router_id,
        c.router_name,
        c.wan_date,
        {{ seconds_between('c.from_at', 'c.until_at') }} as known_s,
        count(s.router_id) as spells,
        {{ exact_sum('case when s.router_id is null then 0 else '
            ~ overlap_s('s.started_at', 's.ended_at', 'c.from_at', 'c.until_at') ~ ' end') }} as primary_down_s
    from clipped as c
    left join {{ ref('int_backup_spells') }} as s
        on c.router_id = s.router_id and s.started_at < c.until_at and s.ended_at > c.from_at
    group by c.router_id, c.router_name, c.wan_date, c.from_at, c.until_at
)

select
    router_id,
    router_name,
    wan_date,
    spells,
    round(known_s, 3) as known_s,
    primary_down_s,
    round(100 * (1 - primary_down_s / known_s), 4) as primary_available_pct
from measured
where known_s > 0
