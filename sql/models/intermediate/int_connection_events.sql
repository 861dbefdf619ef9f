-- Grain: one row per router and moment at which it went online or offline, from its alerts or record.
-- Kind: view.

-- The contract does not define `info` for this alert, so a member with the state takes precedence.
-- The text may contain any device name, so only its end counts, as in "is offline.".
{% set members = ['state', 'status', 'connection_state', 'info.state', 'info.status', 'info.connection_state'] %}

with alerts as (
    select
        router_id,
        coalesce(
            {% for member in members %}
            case when lower({{ json_text('info', member) }}) in ('online', 'offline')
                then lower({{ json_text('info', member) }}) end,
            {% endfor %}
            nullif(regexp_extract(
                lower(description), '(^| )(is|is now|was|went|goes|has gone|came|became) (online|offline)[.!]? *$', 3
            ), '')
        ) as connection_state,
        detected_at
    from {{ ref('stg_alerts') }}
    where alert_type = 'connection_state' and router_id is not null
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
