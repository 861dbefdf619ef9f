-- Grain: one row per user, as it is now.
-- Kind: view.

select
    account_profile,
    id as user_id,
    account_id,

    username,
    email,
    first_name,
    last_name,

    valid_from,
    _loaded_at as loaded_at

from {{ source('raw', 'users') }}
where valid_to is null
