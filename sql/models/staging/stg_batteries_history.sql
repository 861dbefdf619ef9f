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

    try_cast(health as bigint) as health_pct,
    try_cast(rsoc as bigint) as charge_pct,
    try_cast(milliamps as bigint) as current_ma,
    try_cast(millivolts as bigint) as voltage_mv,
    temp as temperature_c,
    try_cast(time_remaining as bigint) as time_remaining_min,

    created_at,
    updated_at as reported_at,
    valid_from,
    valid_to,
    _loaded_at as loaded_at

from {{ source('raw', 'batteries') }}
