-- Grain: one row per alert that a WAN interface was lost or came up.
-- Kind: view.

-- Types are compared as they are stored: most alerts are others, and their columns are not read.
{% set losses = [
    'ethernet_wan_disconnected', 'ethernet_wan_unplugged', 'modem_wan_disconnected',
    'modem_wan_unplugged', 'wwan_disconnected', 'wwan_network_unavailable'
] %}
{% set gains = ['ethernet_wan_connected', 'modem_wan_connected', 'wwan_connected'] %}

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

from {{ ref('stg_alerts') }}
where router_id is not null
    and alert_type in (
        {% for name in losses + gains %}'{{ name }}', 'alt_{{ name }}'{{ ', ' if not loop.last }}{% endfor %}
    )
