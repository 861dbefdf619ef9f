-- Grain: one row per device under subscription and subscription assigned to it, as it is now.
-- Kind: view.

with listed as (
    select account_profile, asset_endpoint_id, {{ json_items('subscriptions_ids') }} as assignment_id
    from {{ ref('stg_asset_endpoints') }}
    union
    select account_profile, asset_endpoint_id, {{ json_items('subscription_ids') }} as assignment_id
    from {{ ref('stg_asset_endpoints') }}
)

select
    l.account_profile,
    l.asset_endpoint_id,
    l.assignment_id,
    s.subscription_type_id,
    s.tenants_id as tenant_id,

    s.name as subscription_name,
    s.quantity,

    s.start_time as started_at,
    s.end_time as ends_at,
    s.valid_from,
    s._loaded_at as loaded_at

from listed as l
-- The service may not know an id that it lists.
left join {{ source('raw', 'asset_endpoint_subscriptions') }} as s
    on s.id = l.assignment_id and s.valid_to is null
