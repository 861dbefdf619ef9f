-- Grain: one row per failover episode with signal samples of its backup.
-- Kind: table.

{{ config(materialized='table') }}

select
    d.episode_id,
    count(*) as signal_samples,
    {{ exact_mean('s.rsrp_dbm', 1) }} as mean_rsrp_dbm,
    min(s.rsrp_dbm) as min_rsrp_dbm,
    {{ exact_mean('s.sinr_db', 1) }} as mean_sinr_db,
    {{ exact_mean('s.signal_pct', 1) }} as mean_signal_pct
from {{ ref('int_episode_days') }} as d
inner join {{ ref('stg_net_device_signal_samples') }} as s
    on d.backup_net_device_id = s.net_device_id
    and d.episode_date = cast(s.sampled_at as date)
    and s.sampled_at >= d.started_at
    and s.sampled_at < least(d.ended_at, coalesce(d.backup_until_at, d.ended_at))
group by d.episode_id
