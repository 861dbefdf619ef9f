-- Grain: one row per failover record.
-- Kind: view.

select
    account_profile,
    uuid as failover_id,
    account_id,
    group_id,
    router_id,
    tenant_id,

    router_name,
    group_name,
    carrier_name as to_carrier,
    previous_wan_interface as from_interface,
    current_wan_interface as to_interface,
    previous_wan_priority as from_priority,
    current_wan_priority as to_priority,

    data_usage as usage_bytes,
    percent_data_cap as data_cap_pct,
    elapsed_time as elapsed_s,

    started_at,
    ended_at,
    updated_at,
    _loaded_at as loaded_at

from {{ source('raw', 'failovers') }}
