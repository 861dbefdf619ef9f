-- Grain: one row per router and fix.
-- Kind: view.

select
    account_profile,
    router_id,
    created_at_timeuuid as fix_id,

    net_device_name,
    carrier_id,
    rfband as rf_band,
    rfband_5g as rf_band_5g,
    summary,

    latitude as latitude_deg,
    longitude as longitude_deg,
    accuracy as accuracy_m,
    altitude as altitude_m,
    mph * 1.609344 as speed_kmh,
    signal_percent as signal_pct,
    cinr as cinr_db,
    dbm as signal_dbm,
    ecio as ecio_db,
    rsrp as rsrp_dbm,
    rsrp_5g as rsrp_5g_dbm,
    rsrq as rsrq_db,
    rsrq_5g as rsrq_5g_db,
    rssi as rssi_dbm,
    sinr as sinr_db,
    sinr_5g as sinr_5g_db,

    created_at as fixed_at,
    _loaded_at as loaded_at

from {{ source('raw', 'historical_locations') }}
