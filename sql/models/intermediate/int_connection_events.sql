-- Grain: one row per router and moment at which something tells that it went online or offline.
-- Kind: view.

-- The alert comes after the device has been in its new state for a minute (contract, Limits).
select
    router_id,
    'alert' as evidence,
    lower(description) like '%offline%' as is_offline,
    {{ seconds_after('detected_at', -var('connection_delay_s')) }} as changed_at
from {{ ref('stg_alerts') }}
where alert_type = 'connection_state' and router_id is not null

union all

select
    router_id,
    'record' as evidence,
    connection_state = 'offline' as is_offline,
    state_updated_at as changed_at
from {{ ref('stg_routers_history') }}
where connection_state in ('online', 'offline') and state_updated_at is not null
