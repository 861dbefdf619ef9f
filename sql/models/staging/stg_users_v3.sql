-- Grain: one row per user of v3, as it is now.
-- Kind: view.

select
    account_profile,
    id as user_v3_id,

    email,
    first_name,
    last_name,
    is_active,
    pending_email,
    try_cast(timeout as bigint) as timeout_min,

    last_login as last_login_at,
    valid_from,
    _loaded_at as loaded_at

from {{ source('raw', 'users_v3') }}
where valid_to is null
