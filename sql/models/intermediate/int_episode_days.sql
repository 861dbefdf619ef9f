-- Grain: one row per failover episode and UTC day that it touches.
-- Kind: table.

{{ config(materialized='table') }}

with days as (
    {{ by_day(ref('int_episodes'), ['episode_id', 'router_id', 'backup_net_device_id', 'backup_until_at'], 'started_at', 'until_at') }}
)

select
    episode_id,
    router_id,
    backup_net_device_id,
    backup_until_at,
    day_date as episode_date,
    from_at as started_at,
    until_at as ended_at
from days
