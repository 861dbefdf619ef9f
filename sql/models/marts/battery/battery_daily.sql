-- Grain: one row per battery and UTC day with a reading.
-- Kind: table.

select
    account_profile,
    battery_id,
    router_id,
    cast(reported_at as date) as reading_date,

    count(*) as readings,
    max_by(health_pct, reported_at) as health_pct,
    min(charge_pct) as min_charge_pct,
    avg(charge_pct) as mean_charge_pct,
    min(current_ma) as min_current_ma,
    max(current_ma) as max_current_ma,
    min(voltage_mv) as min_voltage_mv,
    max(voltage_mv) as max_voltage_mv,
    min(temperature_c) as min_temperature_c,
    avg(temperature_c) as mean_temperature_c,
    max(temperature_c) as max_temperature_c,

    min(reported_at) as first_reported_at,
    max(reported_at) as last_reported_at

from {{ ref('stg_batteries_history') }}
group by account_profile, battery_id, router_id, cast(reported_at as date)
