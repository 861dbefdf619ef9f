-- Grain: one row per router and unbroken spell away from its preferred WAN.
-- Kind: table.

-- Episodes may follow one another without a break, or overlap when a backup fails too.
{{ config(materialized='table') }}

with ordered as (
    select
        router_id,
        episode_id,
        started_at,
        until_at,
        max(until_at) over (
            partition by router_id order by started_at, until_at, episode_id
            rows between unbounded preceding and 1 preceding
        ) as reached
    from {{ ref('int_episodes') }}
),

numbered as (
    select
        *,
        sum(case when started_at <= reached then 0 else 1 end)
            over (partition by router_id order by started_at, until_at, episode_id) as spell
    from ordered
)

select
    router_id,
    min(started_at) as started_at,
    max(until_at) as ended_at
from numbered
group by router_id, spell
