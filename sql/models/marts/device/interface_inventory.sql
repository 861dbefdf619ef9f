-- Grain: one row per network interface (modem or port), as it was last listed.
-- Kind: table.

with versions as (
    select
        *,
        min(valid_from) over (partition by net_device_id) as first_seen_at,
        row_number() over (
            partition by net_device_id
            order by valid_to desc nulls first, valid_from desc, loaded_at desc, account_profile
        ) as newness
    from {{ ref('stg_net_devices_history') }}
)

select
    v.net_device_id,
    v.router_id,
    coalesce(r.account_id, v.account_id) as account_id,
    r.group_id,

    r.router_name,
    a.account_name,
    r.group_name,
    coalesce(v.uid, v.net_device_name) as interface,
    v.net_device_name,
    v.net_device_type as interface_type,
    v.net_device_mode,
    v.port,
    v.connection_state as interface_state,
    v.service_type,
    i.carrier,
    case when {{ is_carrier_code('v.carrier_id') }} then v.carrier_id end as carrier_code,
    v.apn,
    v.imei,
    v.iccid,
    v.phone_number as mdn,
    v.manufacturer as modem_manufacturer,
    v.model as modem_model,
    v.modem_firmware,
    v.valid_to is null as is_listed,

    v.first_seen_at,
    coalesce(v.valid_to, greatest(v.valid_from, k.known_until)) as last_seen_at

from versions as v
cross join {{ ref('int_as_of') }} as k
left join {{ ref('int_interfaces') }} as i on v.net_device_id = i.net_device_id and i.until_at is null
left join {{ ref('int_routers') }} as r on v.router_id = r.router_id
left join {{ present_names(ref('stg_accounts'), 'account') }} as a on coalesce(r.account_id, v.account_id) = a.account_id
where v.newness = 1
