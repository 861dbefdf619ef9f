-- Grain: one row per battery alert, with the threshold of its type.
-- Kind: view.

select
    alert_id,
    router_id,

    alert_type,
    description,

    detected_at

from {{ ref('stg_alerts') }}
where alert_type in (
    'batt_health_alert', 'batt_over_current_alert', 'batt_over_temp_alert',
    'batt_over_voltage_alert', 'batt_sys_low_power_alert', 'batt_sys_power_off_alert'
)
