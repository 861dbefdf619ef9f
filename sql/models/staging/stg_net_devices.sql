-- Grain: one row per network interface, as it is now.
-- Kind: view.

select * from {{ ref('stg_net_devices_history') }}
where valid_to is null
