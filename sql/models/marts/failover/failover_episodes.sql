-- Grain: one row per failover episode: a router away from its preferred WAN.
-- Kind: table.

select
    failover_id as episode_id,
    account_profile,
    account_id,
    group_id,
    router_id,

    router_name,
    group_name,
    from_interface,
    to_interface,
    to_carrier,
    ended_at is null as is_open,

    from_priority,
    to_priority,
    coalesce({{ seconds_between('started_at', 'ended_at') }}, elapsed_s) as duration_s,
    usage_bytes,
    data_cap_pct,

    started_at,
    ended_at

from {{ ref('stg_failovers') }}
