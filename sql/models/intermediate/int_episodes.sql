-- Grain: one row per failover episode, from its record or, where that is missing, from alerts.
-- Kind: table.

-- A record that ends before it begins is an episode of no length: what it says is kept, and its
-- time counts nowhere. That of a router that left the service goes on no longer than that router.
{{ config(materialized='table') }}

with episodes as (
    select
        failover_id as episode_id,
        'record' as source,
        router_id,
        from_interface,
        to_interface,
        from_priority,
        to_priority,
        to_carrier as record_carrier,
        usage_bytes as record_bytes,
        data_cap_pct,
        started_at,
        ended_at
    from {{ ref('stg_failovers') }}

    union all

    select
        alert_id as episode_id,
        'alerts' as source,
        router_id,
        from_interface,
        to_interface,
        null as from_priority,
        null as to_priority,
        null as record_carrier,
        null as record_bytes,
        null as data_cap_pct,
        started_at,
        ended_at
    from {{ ref('int_failovers_unrecorded') }}
)

select
    e.*,
    e.ended_at is null and r.left_at is null as is_open,
    greatest(coalesce(e.ended_at, least(a.known_until, coalesce(r.left_at, a.known_until))), e.started_at) as until_at,
    lost.carrier as from_carrier,
    coalesce(e.record_carrier, backup.carrier) as to_carrier,
    backup.net_device_id as backup_net_device_id

from episodes as e
cross join {{ ref('int_as_of') }} as a
left join {{ ref('int_routers') }} as r on e.router_id = r.router_id
left join {{ ref('int_interfaces') }} as lost
    on e.router_id = lost.router_id and e.from_interface = lost.interface
left join {{ ref('int_interfaces') }} as backup
    on e.router_id = backup.router_id and e.to_interface = backup.interface
