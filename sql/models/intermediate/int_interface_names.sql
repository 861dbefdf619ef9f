-- Grain: one row per router, interface name and span of time, with the interface that had it.
-- Kind: table.

-- Alerts and failovers name an interface by its router and uid, which another interface may take
-- over. If two have it at once, it belongs to the later one. An interface that left the service
-- keeps it until another interface has it, or until it is seen elsewhere itself.
{{ config(materialized='table') }}

with named as (
    select
        *,
        coalesce(uid, net_device_name) as interface
    from {{ ref('stg_net_devices_history') }}
),

borne as (
    select *
    from ({{ version_spans('named', 'net_device_id', ['router_id', 'interface']) }}) as spans
    where router_id is not null and interface is not null
),

edges as (
    select router_id, interface, seen_from as edge_at from borne
    union
    select router_id, interface, until_at as edge_at from borne where until_at is not null
    union
    select router_id, interface, seen_until as edge_at from borne where seen_until is not null
),

bearers as (
    select
        e.router_id,
        e.interface,
        e.edge_at,
        b.net_device_id,
        row_number() over (
            partition by e.router_id, e.interface, e.edge_at
            order by
                case when b.seen_until is null or b.seen_until > e.edge_at then 0 else 1 end,
                b.seen_from desc, b.net_device_id desc
        ) as place
    from edges as e
    left join borne as b
        on e.router_id = b.router_id
        and e.interface = b.interface
        and e.edge_at >= b.seen_from
        and (b.until_at is null or e.edge_at < b.until_at)
),

changes as (
    select
        *,
        row_number() over track as edge_number,
        lag(net_device_id) over track as before_net_device_id
    from bearers
    where place = 1
    window track as (partition by router_id, interface order by edge_at)
),

spans as (
    select
        *,
        lead(edge_at) over (partition by router_id, interface order by edge_at) as until_at
    from changes
    where edge_number = 1 or net_device_id is distinct from before_net_device_id
)

select
    router_id,
    interface,
    net_device_id,
    case when edge_number > 1 then edge_at end as from_at,
    until_at
from spans
where net_device_id is not null
