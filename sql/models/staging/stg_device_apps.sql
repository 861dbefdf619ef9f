-- Grain: one row per app, as it is now.
-- Kind: view.

select
    account_profile,
    id as app_id,
    account_id,

    uuid,
    name as app_name,
    description,

    created_at,
    updated_at,
    valid_from,
    _loaded_at as loaded_at

from {{ source('raw', 'device_apps') }}
where valid_to is null
