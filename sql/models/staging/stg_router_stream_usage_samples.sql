-- Grain: one row per device and sample period.
-- Kind: view.

select
    account_profile,
    created_at_timeuuid as sample_id,
    router_id,

    try_cast(bytes_in as bigint) as in_bytes,
    try_cast(bytes_out as bigint) as out_bytes,
    period as period_s,
    uptime as uptime_s,

    created_at as sampled_at,
    _loaded_at as loaded_at

from {{ source('raw', 'router_stream_usage_samples') }}
