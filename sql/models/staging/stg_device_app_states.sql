-- Grain: one row per device and app version, as it is now.
-- Kind: view.

select
    account_profile,
    id as app_state_id,
    account_id,
    router_id,
    app_version_id,

    state as run_state,

    created_at,
    updated_at,
    valid_from,
    _loaded_at as loaded_at

from {{ source('raw', 'device_app_states') }}
where valid_to is null
