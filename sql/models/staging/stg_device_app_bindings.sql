-- Grain: one row per group and app version, as it is now.
-- Kind: view.

select
    account_profile,
    id as app_binding_id,
    account_id,
    group_id,
    app_version_id,

    state as app_binding_state,

    created_at,
    updated_at,
    valid_from,
    _loaded_at as loaded_at

from {{ source('raw', 'device_app_bindings') }}
where valid_to is null
