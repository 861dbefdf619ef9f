-- Grain: one row per failover episode and UTC day that it touches.
-- Kind: table.

{{ config(materialized='table') }}

with days as (
    select
        episode_id,
        router_id,
        backup_net_device_id,
        started_at,
        until_at,
        {{ explode_days('cast(started_at as date)', 'cast(until_at as date)') }} as episode_date
    from {{ ref('int_episodes') }}
)

select
    episode_id,
    router_id,
    backup_net_device_id,
    episode_date,
    greatest(started_at, {{ day_start('episode_date') }}) as started_at,
    least(until_at, {{ day_start('episode_date') }} + interval 1 day) as ended_at
from days
where until_at > {{ day_start('episode_date') }} or cast(started_at as date) = episode_date
