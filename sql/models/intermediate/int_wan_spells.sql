-- Grain: one row per router and spell in which it was offline, on a backup, or neither is known.
-- Kind: table.

-- The spells of a router do not overlap: offline counts before on a backup, and that before unknown.
-- Before a device first came online its state is unknown; without any event, its record says it.
{{ config(materialized='table') }}

with first_states as (
    select
        d.router_id,
        min(d.from_at) as from_at,
        max(d.until_at) as until_at,
        max(t.first_offline_at) as first_offline_at,
        max(t.first_online_at) as first_online_at,
        max(r.connection_state) as connection_state
    from {{ ref('int_router_days') }} as d
    inner join {{ ref('int_routers') }} as r on d.router_id = r.router_id
    left join {{ ref('int_first_states') }} as t on d.router_id = t.router_id
    group by d.router_id
),

spells as (
    select router_id, 1 as offline, 0 as backup, 0 as unknown, started_at, until_at as ended_at
    from {{ ref('int_offline_spells') }}

    union all

    select router_id, 0, 1, 0, started_at, ended_at from {{ ref('int_backup_spells') }} where router_id is not null

    union all

    select router_id, 0, 0, 1, until_at, unknown_until_at
    from {{ ref('int_episodes') }}
    where router_id is not null

    union all

    select router_id, 0, 0, 1, from_at, coalesce(first_online_at, until_at)
    from first_states
    where first_offline_at is null and (first_online_at is not null or coalesce(connection_state, '') <> 'online')
        or first_online_at < first_offline_at
),

edges as (
    select router_id, edge_at, sum(offline) as offline, sum(backup) as backup, sum(unknown) as unknown
    from (
        select router_id, started_at as edge_at, offline, backup, unknown from spells where ended_at > started_at
        union all
        select router_id, ended_at, -offline, -backup, -unknown from spells where ended_at > started_at
    ) as changes
    group by router_id, edge_at
),

levels as (
    select
        router_id,
        edge_at,
        lead(edge_at) over (partition by router_id order by edge_at) as until_at,
        sum(offline) over track as offline,
        sum(backup) over track as backup,
        sum(unknown) over track as unknown
    from edges
    window track as (partition by router_id order by edge_at rows between unbounded preceding and current row)
)

select
    router_id,
    case when offline > 0 then 'offline' when backup > 0 then 'backup' else 'unknown' end as state,
    edge_at as started_at,
    until_at as ended_at
from levels
where offline > 0 or backup > 0 or unknown > 0
