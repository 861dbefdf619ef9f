-- Grain: one row per failover episode with a disconnect alert shortly before it.
-- Kind: table.

{{ config(materialized='table') }}

-- An alert is stamped to the second, so its second may end after the failover began.
select
    e.episode_id,
    max_by(w.wan_alert_type, w.detected_at) as cause_type,
    max_by(w.reason, w.detected_at) as cause_reason,
    max_by(w.description, w.detected_at) as cause_description,
    max(w.detected_at) as cause_at
from {{ ref('int_episodes') }} as e
inner join {{ ref('int_wan_alerts') }} as w
    on e.router_id = w.router_id
    and w.is_loss
    and w.detected_at <= {{ seconds_after('e.started_at', 1) }}
    and w.detected_at >= {{ seconds_after('e.started_at', -var('failover_cause_s')) }}
    and (w.interface = e.from_interface or w.interface is null or e.from_interface is null)
group by e.episode_id
