-- Grain: one row per app version, as it is now.
-- Kind: view.

select
    account_profile,
    id as app_version_id,
    account_id,
    app_id,

    version,
    state as app_version_state,
    state_details,

    created_at,
    updated_at,
    valid_from,
    _loaded_at as loaded_at

from {{ source('raw', 'device_app_versions') }}
where valid_to is null
