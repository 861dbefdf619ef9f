-- Grain: one row per device and UTC day that the lake knows about.
-- Kind: table.

with measured as (
    select
        d.router_id,
        d.router_name,
        d.day_date as available_date,
        {{ seconds_between('d.from_at', 'd.until_at') }} as known_s,
        count(s.router_id) as offline_spells,
        {{ exact_sum('case when s.router_id is null then 0 else '
            ~ overlap_s('s.started_at', 's.until_at', 'd.from_at', 'd.until_at') ~ ' end') }} as offline_s,
        max(case when s.router_id is null then 0 else
            {{ overlap_s('s.started_at', 's.until_at', 'd.from_at', 'd.until_at') }} end) as longest_offline_s
    from {{ ref('int_router_days') }} as d
    left join {{ ref('int_offline_spells') }} as s
        on d.router_id = s.router_id and s.started_at < d.until_at and s.until_at > d.from_at
    group by d.router_id, d.router_name, d.day_date, d.from_at, d.until_at
)

select
    router_id,
    router_name,
    available_date,
    offline_spells,
    round(known_s, 3) as known_s,
    offline_s,
    round(longest_offline_s, 3) as longest_offline_s,
    round(100 * (1 - offline_s / known_s), 4) as available_pct
from measured
