-- Grain: one row per battery and UTC day with a reading.
-- Kind: table.

select
    battery_id,
    max_by(router_id, reported_at) as router_id,
    cast(reported_at as date) as reading_date,

    count(*) as readings,
    max_by(health_pct, reported_at) as health_pct,
    min(charge_pct) as min_charge_pct,
    {{ exact_mean('charge_pct', 2) }} as mean_charge_pct,
    max_by(charge_pct, reported_at) as last_charge_pct,
    min(current_ma) as min_current_ma,
    max(current_ma) as max_current_ma,
    min(voltage_mv) as min_voltage_mv,
    max(voltage_mv) as max_voltage_mv,
    min(temperature_c) as min_temperature_c,
    {{ exact_mean('temperature_c', 2) }} as mean_temperature_c,
    max(temperature_c) as max_temperature_c,

    coalesce(sum(greatest(-charge_change_pct, 0)), 0) / 1e2 as full_cycles,
    coalesce({{ exact_sum('case when is_bridged then gap_s end') }}, 0) as observed_s,
    coalesce({{ exact_sum('low_s') }}, 0) as low_s,
    coalesce({{ exact_sum('almost_empty_s') }}, 0) as almost_empty_s,
    coalesce({{ exact_sum('hot_s') }}, 0) as hot_s,
    coalesce({{ exact_sum('heat_degree_hours') }}, 0) as heat_degree_hours,

    min(reported_at) as first_reported_at,
    max(reported_at) as last_reported_at

from {{ ref('battery_readings') }}
group by battery_id, cast(reported_at as date)
