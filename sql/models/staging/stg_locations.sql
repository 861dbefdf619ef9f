-- Grain: one row per location record, as it is now.
-- Kind: view.

select
    account_profile,
    id as location_id,
    account_id,
    router_id,

    method as location_method,
    latitude as latitude_deg,
    longitude as longitude_deg,
    accuracy as accuracy_m,
    altitude_meters as altitude_m,

    updated_at,
    _loaded_at as loaded_at

from {{ source('raw', 'locations') }}
