-- Grain: one row per scored interface, as it is now.
-- Kind: view.

select * from {{ ref('stg_net_device_health_history') }}
where valid_to is null
