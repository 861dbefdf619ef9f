-- Grain: one row per alert that a WAN interface was lost or came up.
-- Kind: view.

with typed as (
    select
        *,
        regexp_replace(alert_type, '^alt_', '') as wan_alert_type
    from {{ ref('stg_alerts') }}
    where router_id is not null
)

select
    alert_id,
    router_id,

    {{ json_text('info', 'info.uid') }} as interface,
    {{ json_text('info', 'info.reason') }} as reason,
    wan_alert_type,
    description,
    wan_alert_type in (
        'ethernet_wan_disconnected', 'ethernet_wan_unplugged', 'modem_wan_disconnected',
        'modem_wan_unplugged', 'wwan_disconnected', 'wwan_network_unavailable'
    ) as is_loss,

    detected_at

from typed
where wan_alert_type in (
    'ethernet_wan_disconnected', 'ethernet_wan_unplugged', 'modem_wan_disconnected',
    'modem_wan_unplugged', 'wwan_disconnected', 'wwan_network_unavailable',
    'ethernet_wan_connected', 'modem_wan_connected', 'wwan_connected'
)
