-- Grain: one row per local network, as it is now.
-- Kind: view.

select
    account_profile,
    id as router_lan_id,
    router_id,

    name as router_lan_name,
    enabled as is_enabled,
    ip_address,
    netmask,

    valid_from,
    _loaded_at as loaded_at

from {{ source('raw', 'router_lans') }}
where valid_to is null
