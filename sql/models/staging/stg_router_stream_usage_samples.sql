-- Grain: one row per device and sample period.
-- Kind: view.

select
    account_profile,
    created_at_timeuuid as sample_id,
    router_id,

    bytes_in as in_bytes,
    bytes_out as out_bytes,
    period as period_s,
    uptime as uptime_s,

    created_at as sampled_at,
    _loaded_at as loaded_at

from {{ source('raw', 'router_stream_usage_samples') }}
