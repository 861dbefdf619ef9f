-- Grain: one row per modem and change of its SIM card or router.
-- Kind: table.

-- A version without a SIM card says nothing about it: a modem that is starting up may report none.
with cards as (
    select
        *,
        coalesce(uid, net_device_name) as interface,
        row_number() over of_modem as version_number,
        lag(iccid) over of_modem as from_iccid,
        lag(router_id) over of_modem as from_router_id,
        lag(carrier) over of_modem as from_carrier,
        lag(net_device_id) over of_card as from_net_device_id,
        lag(router_id) over of_card as card_from_router_id
    from {{ ref('stg_net_devices_history') }}
    where iccid is not null
    window
        of_modem as (partition by net_device_id order by valid_from, valid_to nulls last, account_profile),
        of_card as (partition by iccid order by valid_from, valid_to nulls last, net_device_id, account_profile)
),

changed as (
    select
        *,
        from_net_device_id <> net_device_id as is_moved,
        from_iccid <> iccid as is_swapped,
        version_number > 1 and router_id is distinct from from_router_id as is_carried
    from cards
)

select
    c.net_device_id,
    c.router_id,
    r.account_id,
    r.group_id,

    r.router_name,
    r.account_name,
    r.group_name,
    c.interface,
    case
        when c.is_moved then 'SIM card moved'
        when c.is_swapped then 'SIM card swapped'
        else 'modem moved'
    end as sim_change,
    c.imei,
    c.iccid,
    c.from_iccid,
    case when c.is_moved then c.from_net_device_id end as from_net_device_id,
    case when c.is_moved then c.card_from_router_id else c.from_router_id end as from_router_id,
    c.carrier,
    c.from_carrier,

    c.valid_from as changed_at

from changed as c
left join {{ ref('int_routers') }} as r on c.router_id = r.router_id
where c.is_moved or c.is_swapped or c.is_carried
