-- Grain: one row per device, as it is now.
-- Kind: table.

with modems as (
    select
        router_id,
        count(*) as interfaces,
        count(case when net_device_mode = 'wan' then 1 end) as wan_interfaces,
        max(case when connection_state = 'connected' and net_device_mode = 'wan' then carrier end) as carrier
    from {{ ref('stg_net_devices') }}
    where router_id is not null
    group by router_id
)

select
    r.router_id,
    r.account_id,
    r.group_id,
    r.product_id,

    r.router_name,
    a.account_name,
    g.group_name,
    coalesce(r.full_product_name, p.product_name) as product_name,
    p.series,
    r.device_type,
    r.serial_number,
    r.mac,
    r.ipv4_address,
    r.asset_tag,
    r.description,
    r.time_zone,
    r.connection_state,
    r.config_status,
    r.actual_firmware_id,
    r.target_firmware_id,
    f.version as firmware_version,
    r.actual_firmware_id <> r.target_firmware_id as is_behind_on_firmware,
    r.is_reboot_required,
    r.is_upgrade_pending,
    m.carrier,

    coalesce(m.interfaces, 0) as interfaces,
    coalesce(m.wan_interfaces, 0) as wan_interfaces,
    l.latitude_deg,
    l.longitude_deg,

    l.located_at,
    r.state_updated_at,
    r.created_at,
    r.updated_at

from {{ ref('stg_routers') }} as r
left join {{ ref('stg_accounts') }} as a on r.account_id = a.account_id
left join {{ ref('stg_groups') }} as g on r.group_id = g.group_id
left join {{ ref('stg_products') }} as p on r.product_id = p.product_id
left join {{ ref('location_latest') }} as l on r.router_id = l.router_id
left join {{ ref('stg_firmwares') }} as f on r.actual_firmware_id = f.firmware_id
left join modems as m on r.router_id = m.router_id
