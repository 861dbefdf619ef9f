-- Grain: one row per failover with an alert about the interface that was lost.
-- Kind: table.

{{ config(materialized='table') }}

select
    s.start_id as episode_id,
    w.wan_alert_type as cause_type,
    w.reason as cause_reason,
    w.description as cause_description,
    w.detected_at as cause_at
from {{ ref('int_failover_starts') }} as s
inner join {{ ref('int_wan_alerts') }} as w on s.loss_id = w.alert_id and s.router_id = w.router_id
