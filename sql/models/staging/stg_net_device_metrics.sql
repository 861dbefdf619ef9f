-- Grain: one row per network interface, its latest measurements.
-- Kind: view.

select
    account_profile,
    id as net_device_id,

    service_type,
    cell_id,
    lac,
    mcc,
    mnc,
    tac,
    bmask_applied as band_mask,

    try_cast(bytes_in as bigint) as in_total_bytes,
    try_cast(bytes_out as bigint) as out_total_bytes,
    signal_strength as signal_pct,
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

    update_ts as measured_at,
    _loaded_at as loaded_at

from {{ source('raw', 'net_device_metrics') }}
