-- Grain: one row per alert of the last days.
-- Kind: table.

-- A push may have the id of an alert that a poll has read and not confirmed yet.
-- A device may move to another account: an alert belongs to the device's account at its time.
with recent as (
    select
        a.*,
        {{ seconds_after('w.known_until', -86400 * var('alert_log_days')) }} as first_at,
        row_number() over (partition by a.alert_id order by a.created_at, a.loaded_at, a.detected_at) as copy_number
    from {{ ref('stg_alerts') }} as a
    cross join {{ ref('int_as_of') }} as w
    where a.detected_at >= {{ seconds_after('w.known_until', -86400 * var('alert_log_days') - var('alert_repeat_s')) }}
),

spaced as (
    select
        *,
        case when router_id is null then account_id end as lone_account_id,
        coalesce({{ seconds_between('lag(detected_at) over per_type', 'detected_at') }} < {{ var('alert_repeat_s') }}, false)
            as is_repeat
    from recent
    where copy_number = 1
    window per_type as (
        partition by alert_type, router_id, case when router_id is null then account_id end
        order by detected_at, alert_id
    )
),

-- An alert and the repeats that follow it have one number.
numbered as (
    select
        *,
        sum(case when is_repeat then 0 else 1 end) over (
            partition by alert_type, router_id, lone_account_id
            order by detected_at, alert_id rows between unbounded preceding and current row
        ) as run_number
    from spaced
),

counted as (
    select
        *,
        case when is_repeat then 0 else count(*) over run - 1 end as repeats,
        case when not is_repeat then max(detected_at) over run end as last_repeat_at
    from numbered
    window run as (partition by alert_type, router_id, lone_account_id, run_number)
)

select
    c.alert_id,
    c.router_id,
    coalesce(c.account_id, o.account_id) as account_id,
    r.group_id,

    r.router_name,
    a.account_name,
    r.group_name,
    c.alert_type,
    c.description,
    c.is_repeat,

    c.repeats,

    cast(c.detected_at as date) as alert_date,
    c.detected_at,
    case when c.repeats > 0 then c.last_repeat_at end as last_repeat_at

from counted as c
left join {{ ref('int_routers') }} as r on c.router_id = r.router_id
left join {{ ref('int_router_accounts') }} as o
    on c.router_id = o.router_id
    and {{ holds_at('o', 'c.detected_at') }}
left join {{ present_names(ref('stg_accounts'), 'account') }} as a
    on coalesce(c.account_id, o.account_id) = a.account_id
where c.detected_at >= c.first_at
