-- Grain: one row per router and UTC day that the lake has data for.
-- Kind: table.

with spells as (
    {{ by_day(ref('int_backup_spells'), ['router_id'], 'started_at', 'ended_at') }}
),

measured as (
    select
        d.router_id,
        d.router_name,
        d.day_date as wan_date,
        {{ seconds_between('d.from_at', 'd.until_at') }} as known_s,
        count(s.router_id) as spells,
        {{ exact_sum('case when s.router_id is null then 0 else '
            ~ overlap_s('s.from_at', 's.until_at', 'd.from_at', 'd.until_at') ~ ' end') }} as primary_down_s
    from {{ ref('int_router_days') }} as d
    left join spells as s
        on d.router_id = s.router_id
        and d.day_date = s.day_date
        and s.from_at < d.until_at
        and (s.until_at > d.from_at or s.from_at >= d.from_at)
    where d.device_type = 'router'
    group by d.router_id, d.router_name, d.day_date, d.from_at, d.until_at
)

select
    router_id,
    router_name,
    wan_date,
    spells,
    round(known_s, 3) as known_s,
    least(primary_down_s, round(known_s, 3)) as primary_down_s,
    round(100 * (1 - least(primary_down_s / known_s, 1)), 4) as primary_available_pct
from measured
