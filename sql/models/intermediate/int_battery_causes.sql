-- Grain: one row per reading and alert type: whether the reading meets the condition of the alert.
-- Kind: view.

{% set conditions = {
    'batt_health_alert': 'health_pct <= ' ~ var('battery_worn_pct'),
    'batt_over_current_alert': 'current_ma >= ' ~ var('battery_over_ma') ~ ' or current_ma <= -' ~ var('battery_over_ma'),
    'batt_over_temp_alert': 'temperature_c >= ' ~ var('battery_hot_c'),
    'batt_over_voltage_alert': 'voltage_mv >= ' ~ var('battery_over_mv'),
    'batt_sys_low_power_alert': 'charge_pct <= ' ~ var('battery_low_pct'),
    'batt_sys_power_off_alert': 'charge_pct <= ' ~ var('battery_off_pct'),
} %}

with checked as (
    {% for alert_type, condition in conditions.items() %}
    select
        battery_id,
        router_id,
        '{{ alert_type }}' as alert_type,
        {{ condition }} as is_reached,
        reported_at
    from {{ ref('battery_readings') }}
    {% if not loop.last %}union all{% endif %}
    {% endfor %}
)

select
    battery_id,
    router_id,

    alert_type,
    is_reached,
    lag(is_reached) over per_type as was_reached,

    lag(reported_at) over per_type as before_at,
    reported_at

from checked
where is_reached is not null
window per_type as (partition by battery_id, alert_type order by reported_at)
