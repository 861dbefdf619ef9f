-- Grain: one row per battery, as last reported, with a summary of its history.
-- Kind: table.

with latest as (
    select
        *,
        row_number() over (partition by battery_id order by reported_at desc) as newness
    from {{ ref('battery_readings') }}
),

-- A battery that was replaced may keep its id. Its health then jumps up, and all figures start anew.
gauged as (
    select
        battery_id,
        reported_at,
        {{ is_replaced('reported_at') }} as is_replaced
    from {{ ref('battery_readings') }}
    where health_pct between 0 and 100
),

replaced as (
    select battery_id, max(reported_at) as replaced_at
    from gauged
    where is_replaced
    group by battery_id
),

life as (
    select
        d.battery_id,
        count(*) as days_with_readings,
        {{ exact_sum('full_cycles') }} as full_cycles,
        {{ exact_sum('observed_s') }} as observed_s,
        {{ exact_sum('low_s') }} as low_s,
        {{ exact_sum('almost_empty_s') }} as almost_empty_s,
        {{ exact_sum('hot_s') }} as hot_s,
        {{ exact_sum('heat_degree_hours') }} as heat_degree_hours,
        max(max_temperature_c) as max_temperature_c
    from {{ ref('battery_daily') }} as d
    left join replaced as p on d.battery_id = p.battery_id
    where p.replaced_at is null or d.reading_date >= cast(p.replaced_at as date)
    group by d.battery_id
),

discharges as (
    select d.battery_id, count(*) as discharges
    from {{ ref('battery_discharges') }} as d
    left join replaced as p on d.battery_id = p.battery_id
    where p.replaced_at is null or d.started_at >= p.replaced_at
    group by d.battery_id
),

worn as (
    select r.battery_id, min(r.reported_at) as worn_at
    from {{ ref('battery_readings') }} as r
    left join replaced as p on r.battery_id = p.battery_id
    where r.health_pct <= {{ var('battery_worn_pct') }}
        and (p.replaced_at is null or r.reported_at >= p.replaced_at)
    group by r.battery_id
)

select
    n.battery_id,
    r.account_id,
    r.group_id,
    n.router_id,

    r.router_name,
    r.account_name,
    r.group_name,
    b.manufacturer,
    b.serial_number,
    n.charge_status,

    n.health_pct,
    n.charge_pct,
    n.current_ma,
    n.voltage_mv,
    n.temperature_c,
    n.time_remaining_min,

    l.days_with_readings,
    coalesce(d.discharges, 0) as discharges,
    round(l.full_cycles, 2) as full_cycles,
    round(l.observed_s, 0) as observed_s,
    round(l.low_s, 0) as low_s,
    round(l.almost_empty_s, 0) as almost_empty_s,
    round(l.hot_s, 0) as hot_s,
    round(l.heat_degree_hours, 1) as heat_degree_hours,
    l.max_temperature_c,
    round(30 * t.slope, 2) as health_change_pct_per_30_days,
    t.trend_days,

    w.worn_at,
    case when n.health_pct > {{ var('battery_worn_pct') }} and t.days_ahead <= {{ var('battery_horizon_days') }} then
        {{ seconds_after('t.newest_at', 'round(t.days_ahead * 86400)') }} end as predicted_worn_at,
    p.replaced_at,
    b.created_at as first_seen_at,
    n.reported_at

from latest as n
inner join life as l on n.battery_id = l.battery_id
left join discharges as d on n.battery_id = d.battery_id
left join worn as w on n.battery_id = w.battery_id
left join replaced as p on n.battery_id = p.battery_id
left join {{ ref('int_battery_trend') }} as t on n.battery_id = t.battery_id
left join {{ ref('int_batteries') }} as b on n.battery_id = b.battery_id
left join {{ ref('int_routers') }} as r on n.router_id = r.router_id
where n.newness = 1
