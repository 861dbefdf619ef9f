-- Grain: one row per subscription, as it is now.
-- Kind: view.

select
    account_profile,
    id as subscription_id,
    subscription_type_id,
    tenants_id as tenant_id,

    name as subscription_name,
    try_cast(quantity as bigint) as quantity,

    start_time as started_at,
    end_time as ends_at,
    valid_from,
    _loaded_at as loaded_at

from {{ source('raw', 'subscriptions') }}
where valid_to is null
