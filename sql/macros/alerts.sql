{# For models of alerts of a few types, which are a small part of all alerts. A polled alert never
   changes, so an incremental model reads each one once and keeps what it needs. Pushes that no poll
   has confirmed are few, and disappear when one does, so a view reads them each time. #}

{# When an alert was detected, or created if its device says a time that cannot be true: more than a
   day after that, or more than a year before. Each row decides by itself, so that a build of some days
   gives what a build of all does. #}
{% macro detected(detected_at, created_at) -%}
    case when {{ is_odd_detection(detected_at, created_at) }} then {{ created_at }}
        else coalesce({{ detected_at }}, {{ created_at }}) end
{%- endmacro %}

{% macro is_odd_detection(detected_at, created_at) -%}
    coalesce(
        {{ detected_at }} > {{ seconds_after(created_at, 86400) }}
        or {{ detected_at }} < {{ seconds_after(created_at, -86400 * var('evidence_gap_days')) }},
        false
    )
{%- endmacro %}

{# Polled alerts, as `stg_alerts` has them; in an incremental build, those that are new. #}
{% macro polled_alerts() -%}
    select
        created_at_timeuuid as alert_id,
        router_id,

        coalesce({{ neutral_word('type') }}, 'unknown') as alert_type,
        friendly_info as description,
        info,

        {{ detected('detected_at', 'created_at') }} as detected_at

    from {{ source('raw', 'alerts') }}
    {% if is_incremental() %}where {{ is_new_row() }}{% endif %}
{%- endmacro %}

{# Pushed alerts that no poll has confirmed. #}
{% macro unconfirmed_pushes() -%}
    select * from {{ ref('stg_pushed_alerts') }} where not is_polled
{%- endmacro %}


{# Alerts that say in which state a WAN interface is, and that a router failed over. Types are compared
   as they are stored. An alert that does not name its interface is about the one of its kind. #}
{% macro wan_alerts(relation) -%}
    {%- set types = {
        'lost': [
            'ethernet_wan_disconnected', 'ethernet_wan_unplugged', 'modem_wan_disconnected',
            'modem_wan_unplugged', 'wwan_disconnected', 'wwan_network_unavailable'
        ],
        'failover': ['failover_event'],
        'connected': ['ethernet_wan_connected', 'modem_wan_connected', 'wwan_connected'],
        'standby': ['ethernet_wan_standby', 'modem_wan_standby', 'wwan_standby'],
    } -%}
    select
        *,
        case when wan_state <> 'failover' then
            coalesce(interface, concat('any ', regexp_extract(wan_alert_type, '^(ethernet|modem|wwan)', 1)))
        end as link
    from (
        select
            alert_id,
            router_id,

            {{ json_text('info', 'info.uid') }} as interface,
            {{ json_text('info', 'info.reason') }} as reason,
            regexp_replace(alert_type, '^alt_', '') as wan_alert_type,
            description,
            case
                {%- for state, names in types.items() %}
                when alert_type in (
                    {%- for name in names %}'{{ name }}', 'alt_{{ name }}'{{ ', ' if not loop.last }}{% endfor -%}
                ) then '{{ state }}'
                {%- endfor %}
            end as wan_state,

            detected_at

        from ({{ relation }}) as alerts
        where router_id is not null
    ) as told
    where wan_state is not null
{%- endmacro %}


{# What a text has of a pattern; null if it has none, or if a clock time or address is in the rest. #}
{% macro only_one(text, pattern, other) -%}
    case
        when regexp_extract(replace({{ text }}, regexp_extract({{ text }}, '{{ pattern }}', 0), ''), '{{ other }}', 0) = ''
            then nullif(regexp_extract({{ text }}, '{{ pattern }}', 0), '')
    end
{%- endmacro %}

{# When a failover began: its alert may come later and name the start. The text counts if it has
   one time with a zone, in the day before the alert was detected. #}
{% macro failover_start(text, detected_at) -%}
    {%- set time = '[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})' -%}
    {%- set named = instant_of(only_one(text, time, '[0-9]{1,2}:[0-9]{2}')) -%}
    case
        when {{ seconds_between(named, detected_at) }} between 0 and 86400 then {{ named }}
        else {{ detected_at }}
    end
{%- endmacro %}

{# The address and the person in the text of a failed login, or of an address that is banned for several. #}
{% macro login_address(text) -%}
    {%- set address = '[0-9]{1,3}[.][0-9]{1,3}[.][0-9]{1,3}[.][0-9]{1,3}' -%}
    {{ only_one(text, address, address) }}
{%- endmacro %}

{% macro login_user(text) -%}
    {%- set mail = '[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+([.][A-Za-z0-9-]+)+' -%}
    {{ only_one(text, mail, mail) }}
{%- endmacro %}

{# Alerts that a router went online or offline. The contract does not define `info` for this alert,
   so a member with the state takes precedence. The text may contain any device name, so only its end
   counts, e.g. "is offline.". #}
{% macro connection_alerts(relation) -%}
    {%- set members = ['state', 'status', 'connection_state', 'info.state', 'info.status', 'info.connection_state'] -%}
    select
        alert_id,
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
    from ({{ relation }}) as alerts
    where alert_type = 'connection_state' and router_id is not null
{%- endmacro %}
