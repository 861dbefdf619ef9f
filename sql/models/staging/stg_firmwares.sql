-- Grain: one row per firmware release, as it is now.
-- Kind: view.

select
    account_profile,
    id as firmware_id,
    product_id,

    version,
    hash,
    url,
    is_deprecated,
    default_configuration,

    built_at,
    uploaded_at,
    released_at,
    expires_at,
    valid_from,
    _loaded_at as loaded_at

from {{ source('raw', 'firmwares') }}
where valid_to is null
