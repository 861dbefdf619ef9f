{# For models of alerts of a few types, which are a small part of all alerts. A polled alert never
   changes, so an incremental model reads each one once and keeps what it needs. Pushes that no poll
   has confirmed are few, and disappear when one does, so a view reads them each time. #}

{# Polled alerts, as `stg_alerts` has them; in an incremental build, those that are new. #}
{% macro polled_alerts() -%}
    select
        created_at_timeuuid as alert_id,
        router_id,

        coalesce({{ neutral_word('type') }}, 'unknown') as alert_type,
        friendly_info as description,
        info,

        coalesce(detected_at, created_at) as detected_at

    from {{ source('raw', 'alerts') }}
    {% if is_incremental() %}where {{ is_new_row() }}{% endif %}
{%- endmacro %}

{# Pushed alerts that no poll has confirmed. #}
{% macro unconfirmed_pushes() -%}
    select * from {{ ref('stg_pushed_alerts') }} where not is_polled
{%- endmacro %}


{# Alerts that a WAN interface was lost or came up. Types are compared as they are stored. #}
{% macro wan_alerts(relation) -%}
    {%- set losses = [
        'ethernet_wan_disconnected', 'ethernet_wan_unplugged', 'modem_wan_disconnected',
        'modem_wan_unplugged', 'wwan_disconnected', 'wwan_network_unavailable'
    ] -%}
    {%- set gains = ['ethernet_wan_connected', 'modem_wan_connected', 'wwan_connected'] -%}
    select
        alert_id,
        router_id,

        {{ json_text('info', 'info.uid') }} as interface,
        {{ json_text('info', 'info.reason') }} as reason,
        regexp_replace(alert_type, '^alt_', '') as wan_alert_type,
        description,
        alert_type in (
            {% for name in losses %}'{{ name }}', 'alt_{{ name }}'{{ ', ' if not loop.last }}{% endfor %}
        ) as is_loss,

        detected_at

    from ({{ relation }}) as alerts
    where router_id is not null
        and alert_type in (
            {% for name in losses + gains %}'{{ name }}', 'alt_{{ name }}'{{ ', ' if not loop.last }}{% endfor %}
        )
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
