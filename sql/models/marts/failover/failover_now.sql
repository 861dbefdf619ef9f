-- Grain: one row per router that is on a backup now, as far as known.
-- Kind: table.

-- If it is unknown whether a failover is over, a later one says that it is.
with episodes as (
    select
        *,
        row_number() over (partition by router_id order by started_at desc, episode_id) as newness
    from {{ ref('failover_episodes') }}
    where router_id is not null
),

newest as (
    select
        *,
        row_number() over (partition by router_id order by started_at desc, episode_id) as place
    from episodes
    where is_open or (unknown_since_at is not null and newness = 1)
)

select
    n.episode_id,
    n.router_id,
    n.account_id,
    n.group_id,

    n.router_name,
    n.account_name,
    n.group_name,
    n.from_interface,
    n.to_interface,
    n.to_carrier,
    n.cause_reason,

    n.duration_s as so_far_s,
    n.backup_bytes,
    n.data_cap_pct,
    m.rsrp_dbm,
    m.sinr_db,
    m.signal_pct,

    n.started_at,
    n.unknown_since_at,
    a.known_until as as_of_at

from newest as n
cross join {{ ref('int_as_of') }} as a
-- The modem that took over may have been replaced since.
left join {{ ref('int_interface_names') }} as i
    on n.router_id = i.router_id
    and n.to_interface = i.interface
    and {{ holds_at('i', 'a.known_until') }}
left join {{ ref('stg_net_device_metrics') }} as m on i.net_device_id = m.net_device_id
where n.place = 1
