-- Grain: one row per failover episode with a disconnect alert shortly before it.
-- Kind: table.

{{ config(materialized='table') }}

-- Alerts have a resolution of one second, so that second may end after the failover began. Of two
-- alerts in the same second, the one with the higher id is the cause, with all its columns.
with causes as (
    select
        e.episode_id,
        w.wan_alert_type as cause_type,
        w.reason as cause_reason,
        w.description as cause_description,
        w.detected_at as cause_at,
        row_number() over (
            partition by e.episode_id
            order by w.detected_at desc, w.alert_id desc, w.interface desc, w.wan_alert_type desc
        ) as lateness
    from {{ ref('int_episodes') }} as e
    inner join {{ ref('int_wan_alerts') }} as w
        on e.router_id = w.router_id
        and w.is_loss
        and w.detected_at <= {{ seconds_after('e.started_at', 1) }}
        and w.detected_at >= {{ seconds_after('e.started_at', -var('failover_cause_s')) }}
        and (w.interface = e.from_interface or w.interface is null or e.from_interface is null)
)

select
    episode_id,
    cause_type,
    cause_reason,
    cause_description,
    cause_at
from causes
where lateness = 1
