-- Grain: one row per failover episode: its place among the router's others.
-- Kind: table.

{{ config(materialized='table') }}

with gaps as (
    select
        episode_id,
        router_id,
        started_at,
        lag(until_at) over (partition by router_id order by started_at, episode_id) as previous_until
    from {{ ref('int_episodes') }}
),

numbered as (
    select
        *,
        sum(case when {{ seconds_between('previous_until', 'started_at') }} < {{ var('flap_gap_s') }}
            then 0 else 1 end)
            over (partition by router_id order by started_at, episode_id) as flap_number
    from gaps
),

recent as (
    select e.episode_id, count(*) as episodes_recently
    from gaps as e
    inner join gaps as earlier
        on e.router_id = earlier.router_id
        and earlier.started_at <= e.started_at
        and earlier.started_at > e.started_at - interval {{ var('repeat_days') }} day
    group by e.episode_id
)

select
    n.episode_id,
    first_value(n.episode_id) over flap as flap_group_id,
    count(*) over (partition by n.router_id, n.flap_number) as flap_group_episodes,
    r.episodes_recently
from numbered as n
inner join recent as r on n.episode_id = r.episode_id
window flap as (partition by n.router_id, n.flap_number order by n.started_at, n.episode_id)
