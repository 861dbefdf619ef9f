-- Grain: one row per battery and UTC day with a reading.
-- Kind: table.

with spent as (
    select
        battery_id,
        day_date,
        {% for column in ['part_s', 'low_s', 'almost_empty_s', 'hot_s'] %}
        {{ seconds_of_day(column) }} as {{ column }},
        {% endfor %}
        {{ exact_sum('heat_degree_hours') }} as heat_degree_hours
    from {{ ref('int_battery_days') }}
    group by battery_id, day_date
),

read as (
    select
        battery_id,
        {{ last_by('router_id', ['reported_at']) }} as router_id,
        cast(reported_at as date) as reading_date,

        count(*) as readings,
        {{ last_by('health_pct', ['reported_at']) }} as health_pct,
        min(charge_pct) as min_charge_pct,
        {{ exact_mean('charge_pct', 2) }} as mean_charge_pct,
        {{ last_by('charge_pct', ['reported_at']) }} as last_charge_pct,
        min(current_ma) as min_current_ma,
        max(current_ma) as max_current_ma,
        min(voltage_mv) as min_voltage_mv,
        max(voltage_mv) as max_voltage_mv,
        min(temperature_c) as min_temperature_c,
        {{ exact_mean('temperature_c', 2) }} as mean_temperature_c,
        max(temperature_c) as max_temperature_c,

        coalesce(sum(greatest(-1e0 * charge_change_pct, 0)), 0) / 1e2 as full_cycles,
        min(reported_at) as first_reported_at,
        max(reported_at) as last_reported_at

    from {{ ref('battery_readings') }}
    group by battery_id, cast(reported_at as date)
)

select
    r.battery_id,
    r.router_id,
    r.reading_date,

    n.router_name,
    n.account_name,
    n.group_name,

    r.readings,
    r.health_pct,
    r.min_charge_pct,
    r.mean_charge_pct,
    r.last_charge_pct,
    r.min_current_ma,
    r.max_current_ma,
    r.min_voltage_mv,
    r.max_voltage_mv,
    r.min_temperature_c,
    r.mean_temperature_c,
    r.max_temperature_c,

    r.full_cycles,
    coalesce(s.part_s, 0) as observed_s,
    coalesce(s.low_s, 0) as low_s,
    coalesce(s.almost_empty_s, 0) as almost_empty_s,
    coalesce(s.hot_s, 0) as hot_s,
    coalesce(s.heat_degree_hours, 0) as heat_degree_hours,

    {{ is_whole('a', 'r.reading_date', 'day') }} as is_complete,
    r.first_reported_at,
    r.last_reported_at

from read as r
cross join {{ ref('int_as_of') }} as a
left join spent as s on r.battery_id = s.battery_id and r.reading_date = s.day_date
left join {{ ref('int_routers') }} as n on r.router_id = n.router_id
