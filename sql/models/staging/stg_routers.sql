-- Grain: one row per router or access point, as it is now.
-- Kind: view.

select * from {{ ref('stg_routers_history') }}
where valid_to is null
