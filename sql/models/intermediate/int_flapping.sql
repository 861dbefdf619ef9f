-- Grain: one row per failover episode, with its position among the router's other episodes.
-- Kind: table.

{{ config(materialized='table') }}

with gaps as (
    select
        episode_id,
        router_id,
        started_at,
        -- Episodes may overlap, so an earlier one may end later than the previous one.
        max(until_at) over (
            partition by router_id order by started_at, episode_id
            rows between unbounded preceding and 1 preceding
        ) as previous_until
    from {{ ref('int_episodes') }}
),

numbered as (
    select
        *,
        sum(case when {{ seconds_between('previous_until', 'started_at') }} < {{ var('flap_gap_s') }}
            then 0 else 1 end)
            over (partition by router_id order by started_at, episode_id) as flap_number,
        count(*) over (
            partition by router_id order by started_at
            range between interval {{ var('repeat_days') }} day preceding and current row
        ) as episodes_recently
    from gaps
)

select
    episode_id,
    first_value(episode_id) over flap as flap_group_id,
    count(*) over (partition by router_id, flap_number) as flap_group_episodes,
    episodes_recently
from numbered
window flap as (partition by router_id, flap_number order by started_at, episode_id)
