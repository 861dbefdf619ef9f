-- Grain: one row per product, as it is now.
-- Kind: view.

select
    account_profile,
    id as product_id,

    name as product_name,
    device_type,
    series,

    valid_from,
    _loaded_at as loaded_at

from {{ source('raw', 'products') }}
where valid_to is null
