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
    v.router_id,
    v.account_id,
    v.group_id,

    v.router_name,
    a.account_name,
    g.group_name,
    v.device_type,
    v.connection_state,
    v.time_zone,

    v.created_at,
    v.valid_to as left_at

from versions as v
left join {{ present_names(ref('stg_accounts'), 'account') }} as a
    on v.account_id = a.account_id
left join {{ present_names(ref('stg_groups'), 'group') }} as g
    on v.group_id = g.group_id
where v.newness = 1
