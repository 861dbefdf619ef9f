-- Grain: one row per log entry of a device.
-- Kind: view.

select
    account_profile,
    created_at_timeuuid as log_entry_id,
    router_id,

    level,
    source,
    message,
    exception,
    try_cast(sequence as bigint) as sequence,

    reported_at,
    created_at,
    _loaded_at as loaded_at

from {{ source('raw', 'router_logs') }}
