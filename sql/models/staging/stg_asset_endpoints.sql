-- Grain: one row per device under subscription, as it is now.
-- Kind: view.

select
    account_profile,
    id as asset_endpoint_id,

    -- As `routers` spells it: v3 has bare digits, v2 has colons.
    concat_ws(
        ':',
        substr(mac_address, 1, 2), substr(mac_address, 3, 2), substr(mac_address, 5, 2),
        substr(mac_address, 7, 2), substr(mac_address, 9, 2), substr(mac_address, 11, 2)
    ) as mac,
    serial_number,
    hardware_series,
    subscriptions_ids,
    subscription_ids,

    valid_from,
    _loaded_at as loaded_at

from {{ source('raw', 'asset_endpoints') }}
where valid_to is null
