-- Grain: one row per router and fix.
-- Kind: table.

select
    account_profile,
    router_id,
    fix_id,

    net_device_name,
    carrier,

    latitude_deg,
    longitude_deg,
    accuracy_m,
    altitude_m,
    speed_kmh,
    signal_pct,
    signal_dbm,
    rsrp_dbm,
    sinr_db,

    fixed_at

from {{ ref('stg_historical_locations') }}
