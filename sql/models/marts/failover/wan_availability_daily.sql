-- Grain: one row per router and UTC day that the lake has data for.
-- Kind: table.

with backups as (
    {{ by_day(ref('int_backup_spells'), ['router_id'], 'started_at', 'ended_at') }}
),

counted as (
    select router_id, day_date, count(*) as spells
    from backups
    group by router_id, day_date
),

parts as (
    {{ by_day(ref('int_wan_spells'), ['router_id', 'state'], 'started_at', 'ended_at') }}
),

measured as (
    select
        d.router_id,
        d.router_name,
        d.day_date as wan_date,
        round({{ seconds_between('d.from_at', 'd.until_at') }}, 3) as observed_s,
        {% for state in ['backup', 'offline', 'unknown'] %}
        coalesce({{ exact_sum("case when p.state = '" ~ state ~ "' then "
            ~ overlap_s('p.from_at', 'p.until_at', 'd.from_at', 'd.until_at') ~ ' end') }}, 0) as {{ state }}_s
        {{- ',' if not loop.last }}
        {% endfor %}
    from {{ ref('int_router_days') }} as d
    left join parts as p on d.router_id = p.router_id and d.day_date = p.day_date
    where d.device_type = 'router'
    group by d.router_id, d.router_name, d.day_date, d.from_at, d.until_at
),

divided as (
    select
        *,
        round(greatest(observed_s - backup_s - offline_s - unknown_s, 0), 3) as primary_s,
        round(greatest(observed_s - unknown_s, 0), 3) as known_s
    from measured
)

select
    d.router_id,
    d.router_name,
    d.wan_date,
    coalesce(c.spells, 0) as spells,
    d.observed_s,
    d.observed_s >= 86400 as is_complete,
    d.known_s,
    d.primary_s,
    d.backup_s,
    d.offline_s,
    d.unknown_s,
    round(d.backup_s + d.offline_s, 3) as primary_down_s,
    round(100 * d.primary_s / nullif(d.known_s, 0), 4) as primary_available_pct,
    round(100 * greatest(d.known_s - d.offline_s, 0) / nullif(d.known_s, 0), 4) as up_pct
from divided as d
left join counted as c on d.router_id = c.router_id and d.wan_date = c.day_date
