-- Grain: one row per account and version of its record.
-- Kind: view.

select
    account_profile,
    id as account_id,
    account_id as parent_account_id,

    name as account_name,
    is_disabled,

    valid_from,
    valid_to,
    _loaded_at as loaded_at

from {{ source('raw', 'accounts') }}
