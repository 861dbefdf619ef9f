-- Grain: one row per battery and version of its record.
-- Kind: view.

select
    account_profile,
    id as battery_id,
    router_id,

    manufacturer,
    serial as serial_number,
    type as power_source_type,
    lower(status) as charge_status,

    health as health_pct,
    rsoc as charge_pct,
    milliamps as current_ma,
    millivolts as voltage_mv,
    temp as temperature_c,
    time_remaining as time_remaining_min,

    created_at,
    updated_at as reported_at,
    valid_from,
    valid_to,
    _loaded_at as loaded_at

from {{ source('raw', 'batteries') }}
