-- Grain: one row per battery alert, and per crossing of a threshold without an alert.
-- Kind: table.

with near as (
    select
        a.alert_id,
        max(c.battery_id) as battery_id,
        max(case when c.is_reached then 1 else 0 end) as shows,
        max(case when c.reported_at <= a.detected_at then 1 else 0 end) as seen_before,
        max(case when c.reported_at >= a.detected_at then 1 else 0 end) as seen_after
    from {{ ref('int_battery_alerts') }} as a
    inner join {{ ref('int_battery_causes') }} as c
        on a.router_id = c.router_id
        and a.alert_type = c.alert_type
        and abs({{ seconds_between('a.detected_at', 'c.reported_at') }}) <= {{ var('battery_near_s') }}
    group by a.alert_id
),

-- A crossing lies between two readings; its alert may be stamped slightly outside them.
crossings as (
    select
        c.battery_id,
        c.router_id,
        c.alert_type,
        c.reported_at,
        max(a.alert_id) as alert_id
    from {{ ref('int_battery_causes') }} as c
    left join {{ ref('int_battery_alerts') }} as a
        on c.router_id = a.router_id
        and c.alert_type = a.alert_type
        and a.detected_at >= {{ seconds_after('c.before_at', -var('battery_near_s')) }}
        and a.detected_at <= {{ seconds_after('c.reported_at', var('battery_near_s')) }}
    where c.is_reached and not c.was_reached
    group by c.battery_id, c.router_id, c.alert_type, c.reported_at
),

explained as (
    select distinct alert_id from crossings
),

checks as (
    select
        a.alert_id as check_id,
        a.router_id,
        n.battery_id,

        a.alert_type,
        case
            when n.shows = 1 or e.alert_id is not null then 'confirmed'
            when n.seen_before = 1 and n.seen_after = 1 then 'alert without cause'
            else 'no reading near'
        end as verdict,
        a.description,

        a.detected_at as checked_at

    from {{ ref('int_battery_alerts') }} as a
    left join near as n on a.alert_id = n.alert_id
    left join explained as e on a.alert_id = e.alert_id

    union all

    select
        concat(battery_id, ' ', alert_type, ' ', cast(reported_at as {{ dbt.type_string() }})) as check_id,
        router_id,
        battery_id,

        alert_type,
        'cause without alert' as verdict,
        null as description,

        reported_at as checked_at

    from crossings
    where alert_id is null
)

select
    c.check_id,
    c.router_id,
    c.battery_id,

    r.router_name,
    r.account_name,
    r.group_name,
    c.alert_type,
    c.verdict,
    c.description,

    c.checked_at

from checks as c
left join {{ ref('int_routers') }} as r on c.router_id = r.router_id
