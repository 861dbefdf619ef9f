-- Grain: one row per push destination, as it is now.
-- Kind: view.

select
    account_profile,
    destination_config_id as push_destination_id,
    account_id,

    name as push_destination_name,
    endpoint_url as url,
    enabled as is_enabled,
    suspended as is_suspended,
    last_error_text,

    last_error_at,
    updated_at,
    valid_from,
    _loaded_at as loaded_at

from {{ source('raw', 'alert_push_destinations') }}
where valid_to is null
