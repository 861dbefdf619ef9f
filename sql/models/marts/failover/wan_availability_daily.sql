-- Grain: one row per router and UTC day that the lake knows about.
-- Kind: table.

with measured as (
    select
        d.router_id,
        d.router_name,
        d.day_date as wan_date,
        {{ seconds_between('d.from_at', 'd.until_at') }} as known_s,
        count(s.router_id) as spells,
        {{ exact_sum('case when s.router_id is null then 0 else '
            ~ overlap_s('s.started_at', 's.ended_at', 'd.from_at', 'd.until_at') ~ ' end') }} as primary_down_s
    from {{ ref('int_router_days') }} as d
    left join {{ ref('int_backup_spells') }} as s
        on d.router_id = s.router_id and s.started_at < d.until_at and s.ended_at > d.from_at
    where d.device_type = 'router'
    group by d.router_id, d.router_name, d.day_date, d.from_at, d.until_at
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
