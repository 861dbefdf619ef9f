-- Grain: one row per battery, as last reported.
-- Kind: table.

select
    b.account_profile,
    b.battery_id,
    b.router_id,

    r.router_name,
    b.manufacturer,
    b.serial_number,
    b.charge_status,

    b.health_pct,
    b.charge_pct,
    b.current_ma,
    b.voltage_mv,
    b.temperature_c,
    b.time_remaining_min,

    b.created_at as first_seen_at,
    b.reported_at

from {{ ref('stg_batteries') }} as b
left join {{ ref('stg_routers') }} as r on b.router_id = r.router_id
