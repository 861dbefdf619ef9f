-- Grain: one row per router and moment at which it went online or offline, from its alerts or record.
-- Kind: view.

with alerts as (
    select router_id, connection_state, detected_at
    from {{ ref('int_connection_alerts') }}
    union all
    select router_id, connection_state, detected_at
    from ({{ connection_alerts(unconfirmed_pushes()) }}) as pushed
)

-- The alert comes after the device has been in its new state for a minute (contract, Limits).
select
    router_id,
    'alert' as evidence,
    connection_state = 'offline' as is_offline,
    {{ seconds_after('detected_at', -var('connection_delay_s')) }} as changed_at
from alerts
where connection_state is not null

union all

select
    router_id,
    'record' as evidence,
    connection_state = 'offline' as is_offline,
    state_updated_at as changed_at
from {{ ref('stg_routers_history') }}
where connection_state in ('online', 'offline') and state_updated_at is not null
