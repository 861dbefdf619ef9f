-- Grain: one row per router and moment at which it went online or offline, from its alerts or record.
-- Kind: view.

-- A moment that has not come yet, by a device's wrong clock, counts as the current time.
with alerts as (
    select router_id, connection_state, detected_at
    from {{ ref('int_connection_alerts') }}
    union all
    select router_id, connection_state, detected_at
    from ({{ connection_alerts(unconfirmed_pushes()) }}) as pushed
),

-- The alert comes after the device has been in its new state for a minute (contract, Limits).
events as (
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
)

select
    e.router_id,
    e.evidence,
    e.is_offline,
    least(e.changed_at, a.known_until) as changed_at
from events as e
cross join {{ ref('int_as_of') }} as a
