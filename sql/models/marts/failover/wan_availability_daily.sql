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

routers as (
    select
        d.router_id,
        coalesce(z.time_zone, 'UTC') as zone_name,
        {{ working_days('h') }} as working_days,
        {{ working_hour('h', 'from') }} as from_hour,
        {{ working_hour('h', 'until') }} as until_hour,
        min(d.from_at) as first_at,
        max(d.until_at) as last_at
    from {{ ref('int_router_days') }} as d
    left join {{ ref('int_router_zones') }} as z on d.router_id = z.router_id
    left join {{ ref('int_router_hours') }} as h on d.router_id = h.router_id
    where d.device_type = 'router'
    group by d.router_id, z.time_zone, h.working_days, h.working_from_hour, h.working_until_hour
),

-- Local times are computed once for all routers with the same.
calendar as (
    select
        c.*,
        d.day_date,
        {{ local_day_start('d.day_date', 'c.zone_name', 'c.from_hour') }} as from_at,
        {{ local_day_start('d.day_date', 'c.zone_name', 'c.until_hour') }} as until_at
    from (select distinct zone_name, working_days, from_hour, until_hour from routers) as c
    cross join (select distinct day_date from {{ ref('int_router_days') }}) as d
    where {{ is_working_day('c.working_days', 'd.day_date') }}
),

-- The working hours of the local day of each date, as far as the lake has data for them.
hours as (
    select
        r.router_id,
        c.day_date as wan_date,
        greatest(c.from_at, r.first_at) as from_at,
        least(c.until_at, r.last_at) as until_at
    from routers as r
    inner join calendar as c
        on r.zone_name = c.zone_name
        and r.working_days = c.working_days
        and r.from_hour = c.from_hour
        and r.until_hour = c.until_hour
    where c.until_at > r.first_at and c.from_at < r.last_at
),

-- They may lie in two UTC days.
working as (
    select
        h.router_id,
        h.wan_date,
        {% for state in ['offline', 'unknown'] %}
        {{ exact_sum("case when p.state = '" ~ state ~ "' then "
            ~ overlap_s('p.from_at', 'p.until_at', 'h.from_at', 'h.until_at') ~ ' end') }} as {{ state }}_s
        {{- ',' if not loop.last }}
        {% endfor %}
    from parts as p
    cross join (values (-1), (0), (1)) as o (days)
    inner join hours as h on p.router_id = h.router_id and p.day_date + o.days = h.wan_date
    where p.state <> 'backup'
    group by h.router_id, h.wan_date
),

measured as (
    select
        d.router_id,
        d.router_name,
        d.account_name,
        d.group_name,
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
    group by d.router_id, d.router_name, d.account_name, d.group_name, d.day_date, d.from_at, d.until_at
),

divided as (
    select
        *,
        round(greatest(observed_s - backup_s - offline_s - unknown_s, 0), 3) as primary_s,
        round(greatest(observed_s - unknown_s, 0), 3) as known_s
    from measured
),

worked as (
    select
        h.router_id,
        h.wan_date,
        round(greatest({{ seconds_between('h.from_at', 'h.until_at') }} - coalesce(w.unknown_s, 0), 0), 3) as known_s,
        coalesce(w.offline_s, 0) as offline_s
    from hours as h
    left join working as w on h.router_id = w.router_id and h.wan_date = w.wan_date
)

select
    d.router_id,
    d.router_name,
    d.account_name,
    d.group_name,
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
    round(100 * greatest(d.known_s - d.offline_s, 0) / nullif(d.known_s, 0), 4) as up_pct,
    coalesce(w.known_s, 0) as working_s,
    coalesce(w.offline_s, 0) as working_offline_s,
    round(100 * greatest(w.known_s - w.offline_s, 0) / nullif(w.known_s, 0), 4) as working_up_pct
from divided as d
left join counted as c on d.router_id = c.router_id and d.wan_date = c.day_date
left join worked as w on d.router_id = w.router_id and d.wan_date = w.wan_date
