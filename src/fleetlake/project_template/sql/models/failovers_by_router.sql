-- Grain: one row per router that failed over.

select
    router_id,
    any_value(router_name) as router_name,
    count(*) as episodes,
    sum(duration_s) as away_s,
    max(started_at) as last_started_at
from {{ ref('failover_episodes') }}
group by router_id
