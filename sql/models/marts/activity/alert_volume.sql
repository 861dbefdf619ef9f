-- Grain: one row per alert type, device or account, and UTC day.
-- Kind: table.

-- A device may move to another account: an alert belongs to the device's account at its time.
with owned as (
    select
        a.alert_id,
        a.alert_type,
        a.router_id,
        coalesce(a.account_id, s.account_id) as account_id,
        a.detected_at
    from {{ ref('stg_alerts') }} as a
    left join {{ ref('int_router_spans') }} as s
        on a.router_id = s.router_id
        and {{ holds_at('s', 'a.detected_at') }}
),

spaced as (
    select
        *,
        {{ seconds_between('lag(detected_at) over per_type', 'detected_at') }} as since_last_s
    from owned
    window per_type as (
        partition by alert_type, router_id, case when router_id is null then account_id end
        order by detected_at, alert_id
    )
)

select
    s.alert_type,
    s.router_id,
    s.account_id,
    cast(s.detected_at as date) as alert_date,

    max(r.router_name) as router_name,

    count(*) as alerts,
    count(case when s.since_last_s < {{ var('alert_repeat_s') }} then 1 end) as repeats,

    min(s.detected_at) as first_detected_at,
    max(s.detected_at) as last_detected_at

from spaced as s
left join {{ ref('int_routers') }} as r on s.router_id = r.router_id
group by s.alert_type, s.router_id, s.account_id, cast(s.detected_at as date)
