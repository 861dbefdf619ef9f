-- Grain: one row per router or access point, with the newest version of its record, present or gone.
-- Kind: view.

-- A device keeps its history after it has left the service. If two accounts list it, the one that
-- still lists it takes precedence.
with versions as (
    select
        *,
        row_number() over (
            partition by router_id order by valid_to desc nulls first, valid_from desc, loaded_at desc, account_profile
        ) as newness
    from {{ ref('stg_routers_history') }}
)

select
    router_id,
    account_id,
    group_id,

    router_name,
    device_type,
    connection_state,

    created_at,
    valid_to as left_at

from versions
where newness = 1
