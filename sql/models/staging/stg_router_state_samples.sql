-- Grain: one row per device and sample period.
-- Kind: view.

select
    account_profile,
    created_at_timeuuid as sample_id,
    router_id,

    state as connection_state,
    period as period_s,

    created_at as sampled_at,
    _loaded_at as loaded_at

from {{ source('raw', 'router_state_samples') }}
