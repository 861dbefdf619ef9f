-- Grain: one row per failover episode and UTC day with usage samples of its backup.
-- Kind: table.

-- A backup carries traffic during its failovers, so the bytes of a sample are shared among the
-- episodes that it overlaps, in proportion to the overlap.
{{ config(materialized='table') }}

with samples as (
    select
        net_device_id,
        sample_id,
        {{ bytes_both_ways('in_bytes', 'out_bytes') }} as sample_bytes,
        sampled_at as ended_at,
        {{ seconds_after('sampled_at', '-1 * ' ~ period_length('period_s')) }} as started_at
    from {{ ref('stg_net_device_usage_samples') }}
    where {{ bytes_both_ways('in_bytes', 'out_bytes') }} > 0
),

-- Traffic after the interface left the router or lost its name does not belong to the episode.
carried as (
    select
        episode_id,
        backup_net_device_id,
        episode_date,
        started_at,
        least(ended_at, coalesce(backup_until_at, ended_at)) as ended_at
    from {{ ref('int_episode_days') }}
),

-- A sample joins on the day it ends and on the day before, because it may start there.
parts as (
    select *, episode_date as sample_date from carried
    union all
    select *, episode_date + 1 as sample_date from carried
),

touching as (
    select
        p.episode_id,
        p.episode_date,
        s.net_device_id,
        s.sample_id,
        s.sample_bytes,
        {{ overlap_s('p.started_at', 'p.ended_at', 's.started_at', 's.ended_at') }} as overlap_s
    from samples as s
    inner join parts as p
        on s.net_device_id = p.backup_net_device_id
        and cast(s.ended_at as date) = p.sample_date
        and p.started_at < s.ended_at
        and p.ended_at > s.started_at
),

-- A zero-length episode carries no traffic.
shares as (
    select
        *,
        sum(overlap_s) over (partition by net_device_id, sample_id) as failed_over_s
    from touching
    where overlap_s > 0
)

select
    episode_id,
    episode_date,
    {{ whole_number('sum(sample_bytes * overlap_s / failed_over_s)') }} as backup_bytes
from shares
group by episode_id, episode_date
