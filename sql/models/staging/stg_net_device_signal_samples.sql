-- Grain: one row per network interface and signal sample.
-- Kind: view.

select
    account_profile,
    net_device_id,
    created_at_timeuuid as sample_id,

    signal_percent as signal_pct,
    cinr as cinr_db,
    dbm as signal_dbm,
    ecio as ecio_db,
    rsrp as rsrp_dbm,
    rsrq as rsrq_db,
    rssi as rssi_dbm,
    rssnr as rssnr_db,
    sinr as sinr_db,
    rsrp5g as rsrp_5g_dbm,
    rsrq5g as rsrq_5g_db,
    sinr5g as sinr_5g_db,
    rsrp5g_highband as rsrp_5g_highband_dbm,
    rsrq5g_highband as rsrq_5g_highband_db,
    sinr5g_highband as sinr_5g_highband_db,
    uptime as uptime_s,

    created_at as sampled_at,
    _loaded_at as loaded_at

from {{ source('raw', 'net_device_signal_samples') }}
