-- Grain: one row per network interface and sample period.
-- Kind: view.

select
    account_profile,
    net_device_id,
    created_at_timeuuid as sample_id,

    try_cast(bytes_in as bigint) as in_bytes,
    try_cast(bytes_out as bigint) as out_bytes,
    period as period_s,
    uptime as uptime_s,

    created_at as sampled_at,
    _loaded_at as loaded_at

from {{ source('raw', 'net_device_usage_samples') }}
