-- Grain: one row per alert that says in which state a WAN interface is, with the states before and after.
-- Kind: table.

{{ config(materialized='table') }}

-- In the same second, a loss comes before a connection, and standby after it.
with states as (
    select
        *,
        case wan_state when 'lost' then 0 when 'connected' then 2 else 3 end as turn
    from {{ ref('int_wan_alerts') }}
    where wan_state <> 'failover' and detected_at is not null
)

select
    alert_id,
    router_id,
    link,
    wan_alert_type,
    wan_state,
    turn,
    detected_at,

    lag(wan_state) over track as before_state,
    lag(detected_at) over track as before_at,
    lead(wan_state) over track as after_state,
    lead(detected_at) over track as after_at,
    min(case when wan_state = 'connected' then detected_at end)
        over (
            partition by router_id, link order by detected_at desc, turn desc, alert_id desc
            rows between unbounded preceding and 1 preceding
        ) as connected_at,
    -- Unplugging what is disconnected is not another loss, while it is known to be disconnected.
    wan_state = 'lost' and coalesce(lag(wan_state) over track, '') = 'lost' and (
        {{ seconds_between('lag(detected_at) over track', 'detected_at') }} <= {{ var('failover_match_s') }}
        or (wan_alert_type like '%unplugged' and lag(wan_alert_type) over track not like '%unplugged'
            and {{ seconds_between('lag(detected_at) over track', 'detected_at') }} <= {{ var('backup_evidence_s') }})
    ) as is_repeat

from states
window track as (partition by router_id, link order by detected_at, turn, alert_id)
