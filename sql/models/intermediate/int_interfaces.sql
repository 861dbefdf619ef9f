-- Grain: one row per router and interface, the one that last bore the name.
-- Kind: table.

{{ config(materialized='table') }}

with versions as (
    select
        *,
        coalesce(uid, net_device_name) as interface,
        row_number() over (
            partition by router_id, coalesce(uid, net_device_name)
            order by valid_from desc, net_device_id desc
        ) as newness
    from {{ ref('stg_net_devices_history') }}
    where router_id is not null
)

select
    net_device_id,
    router_id,

    interface,
    net_device_type as interface_type,
    net_device_mode,
    carrier

from versions
where newness = 1
