-- Grain: one row per alert type, device or account, and UTC day.
-- Kind: incremental. A unit is an alert type, device (or none) and UTC day.

{{ config(
    materialized='incremental', incremental_strategy='append',
    meta={'unit': ['alert_type', 'router_id', 'alert_date']},
    pre_hook=["{{ recall_confirmations() }}", "{{ forget_found(touched_alert_days()) }}"],
    post_hook=["{{ remember_confirmations() }}", "{{ remember_built() }}"]
) }}

with alerts as (
    select
        a.alert_id,
        a.alert_type,
        a.router_id,
        a.account_id,
        a.detected_at,
        a.is_odd_detection,
        cast(a.detected_at as date) as alert_date
    from {{ ref('stg_alerts') }} as a
    {% if is_incremental() %}
    -- The first alert of a day may repeat one of a day before; `in_found` then leaves out those days.
    where a.detected_at >= {{ seconds_after(day_start(touched_from()), -var('alert_repeat_s')) }}
        and (a.alert_type, coalesce(a.router_id, 0), cast(a.detected_at as date)) in (
            select t.alert_type, coalesce(t.router_id, 0), t.alert_date - n.n
            from {{ touched_table() }} as t
            cross join (
                select 0 as n union all {{ numbers([(var('alert_repeat_s') / 86400) | round(0, 'ceil') | int, 1] | max) }}
            ) as n
        )
    {% endif %}
),

spaced as (
    select
        *,
        {{ seconds_between('lag(detected_at) over per_type', 'detected_at') }} as since_last_s
    from alerts
    window per_type as (
        partition by alert_type, router_id, case when router_id is null then account_id end
        order by detected_at, alert_id
    )
),

-- A device may move to another account: an alert belongs to the device's account at its time.
owned as (
    select
        s.alert_type,
        s.router_id,
        coalesce(s.account_id, r.account_id) as account_id,
        s.alert_date,
        r.router_name,
        s.since_last_s,
        s.is_odd_detection,
        s.detected_at
    from (select * from spaced where {{ in_found(['alert_type', 'router_id', 'alert_date']) }}) as s
    left join {{ ref('int_router_accounts') }} as r
        on s.router_id = r.router_id
        and {{ holds_at('r', 's.detected_at') }}
)

select
    alert_type,
    router_id,
    account_id,
    alert_date,

    max(router_name) as router_name,

    count(*) as alerts,
    count(case when since_last_s < {{ var('alert_repeat_s') }} then 1 end) as repeats,
    count(case when is_odd_detection then 1 end) as odd_alerts,

    min(detected_at) as first_detected_at,
    max(detected_at) as last_detected_at,
    {{ built_at() }} as built_at

from owned
group by alert_type, router_id, account_id, alert_date
