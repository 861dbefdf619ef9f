-- Grain: one row per battery, with its risk and the reasons for it.
-- Kind: table.

-- A battery that runs empty raises two alerts, at 20% and at 7%; they count as one drain. An alert
-- names the router, so it belongs to the battery that the router held at that time. A battery that
-- was taken out is left out, and so is that of a router that left the service: it may have come
-- back under another id.
with recent_alerts as (
    select
        s.battery_id,
        greatest(
            count(case when b.alert_type = 'batt_sys_low_power_alert' then 1 end),
            count(case when b.alert_type = 'batt_sys_power_off_alert' then 1 end)
        ) as drained,
        sum(case when b.alert_type in ('batt_over_current_alert', 'batt_over_voltage_alert') then 1 else 0 end) as charged_badly
    from {{ ref('int_battery_alerts') }} as b
    cross join {{ ref('int_as_of') }} as a
    inner join {{ ref('int_battery_spans') }} as s
        on b.router_id = s.router_id
        and {{ holds_at('s', 'b.detected_at') }}
    where b.detected_at > a.known_until - interval 30 day
    group by s.battery_id
),

facts as (
    select
        h.*,
        a.known_until,
        coalesce(r.drained, 0) as drained,
        coalesce(r.charged_badly, 0) as charged_badly,
        {{ seconds_between('a.known_until', 'h.predicted_worn_at') }} / 86400 as days_left,
        {{ seconds_between('h.reported_at', 'a.known_until') }} / 86400 as silent_days
    from {{ ref('battery_health') }} as h
    cross join {{ ref('int_as_of') }} as a
    left join recent_alerts as r on h.battery_id = r.battery_id
    left join {{ ref('int_routers') }} as router on h.router_id = router.router_id
    left join {{ ref('int_batteries') }} as battery on h.battery_id = battery.battery_id
    where router.left_at is null and battery.left_at is null
),

judged as (
    select
        *,
        case when health_pct <= {{ var('battery_worn_pct') }}
            then concat('health is ', health_pct, '%, worn out') end as worn_reason,
        case when health_pct > {{ var('battery_worn_pct') }} and health_pct <= {{ var('battery_aged_pct') }}
            then concat('health is ', health_pct, '%') end as aged_reason,
        days_left <= {{ var('battery_soon_days') }} as is_soon,
        case when days_left <= {{ var('battery_later_days') }}
            then concat('worn out in about ', cast(greatest(round(days_left), 0) as int),
                case when round(days_left) = 1 then ' day' else ' days' end,
                ' if the rate of the last ', trend_days, ' days stays') end as later_reason,
        case when hot_s > 0
            then concat('above {{ var("battery_hot_c") }} degrees for ', round(hot_s / 3600, 1), ' hours') end as hot_reason,
        case when drained > 0
            then concat('drained ', cast(drained as int), case when drained = 1 then ' time' else ' times' end,
                ' in 30 days') end as drained_reason,
        case when charged_badly > 0
            then concat('over-current or over-voltage ', cast(charged_badly as int),
                case when charged_badly = 1 then ' time' else ' times' end, ' in 30 days') end as charged_reason,
        case when silent_days > {{ var('battery_silent_days') }}
            then concat('no report for ', cast(floor(silent_days) as int), ' days') end as silent_reason
    from facts
)

select
    battery_id,
    router_id,
    account_id,
    group_id,

    router_name,
    account_name,
    group_name,
    case
        when worn_reason is not null or is_soon then 'high'
        when coalesce(aged_reason, later_reason, hot_reason, charged_reason, silent_reason) is not null or drained >= 3 then 'medium'
        else 'low'
    end as risk,
    concat_ws('; ', worn_reason, aged_reason, later_reason, hot_reason, drained_reason, charged_reason, silent_reason) as reasons,

    health_pct,
    round(days_left, 1) as days_left,
    trend_days,

    predicted_worn_at,
    reported_at

from judged
