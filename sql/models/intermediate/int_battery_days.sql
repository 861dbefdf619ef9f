-- Grain: one row per battery, gap between two bridged readings and UTC day that it touches.
-- Kind: table.

-- Charge and heat are interpolated linearly between two readings, so a gap across midnight is
-- split there. Each of its two days has one of the readings.
{{ config(materialized='table') }}

with followed as (
    select
        battery_id,
        is_bridged,
        lag(reported_at) over per_battery as gap_from,
        lag(reported_at) over per_battery as before_at,
        lag(charge_pct) over per_battery as before_charge_pct,
        lag(temperature_c) over per_battery as before_temperature_c,
        charge_pct,
        temperature_c,
        reported_at as gap_until,
        reported_at
    from {{ ref('battery_readings') }}
    window per_battery as (partition by battery_id order by reported_at)
),

bridged as (
    select * from followed
    where is_bridged
),

days as (
    {{ by_day('bridged', [
        'battery_id', 'gap_from', 'gap_until', 'before_charge_pct', 'charge_pct',
        'before_temperature_c', 'temperature_c',
    ], 'before_at', 'reported_at') }}
),

moved as (
    select
        battery_id,
        day_date,
        {{ seconds_between('from_at', 'until_at') }} as part_s,
        {% for column in ['charge_pct', 'temperature_c'] %}
        {% for end in ['from', 'until'] %}
        {{ value_at('before_' ~ column, column, 'gap_from', 'gap_until', end ~ '_at') }} as {{ end }}_{{ column }},
        {% endfor %}
        {% endfor %}
        {{ half_step('before_temperature_c', 'temperature_c') }} as half_step_c,
        gap_until
    from days
)

select
    battery_id,
    day_date,
    gap_until,

    part_s,
    {% for column, level in [('low_s', 'battery_low_pct'), ('almost_empty_s', 'battery_off_pct')] %}
    round(part_s * {{ share_at_or_below(
        'from_charge_pct', 'until_charge_pct', var(level) ~ ' + 0.5e0') }}, 1) as {{ column }},
    {% endfor %}
    round(part_s * {{ share_at_or_below(
        '-from_temperature_c', '-until_temperature_c', 'half_step_c - ' ~ var('battery_hot_c')) }}, 1) as hot_s,
    round(part_s / 3600
        * {{ mean_above('from_temperature_c', 'until_temperature_c', var('battery_warm_c')) }}, 3) as heat_degree_hours

from moved
