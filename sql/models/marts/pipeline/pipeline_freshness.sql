-- Grain: one row per account profile and endpoint that was ever loaded.
-- Kind: table.

with loads as (
    select
        account_profile,
        endpoint,
        count(*) as loads,
        {{ whole_sum('rows_added') }} as rows_added,
        {{ whole_sum('quarantined') }} as quarantined,
        max(committed_at) as last_loaded_at
    from {{ source('meta', 'loads') }}
    where endpoint <> 'pushed_alerts'  -- pushed, so nothing is ever missing or late
    group by account_profile, endpoint
),

spaced as (
    select
        account_profile,
        endpoint,
        partition as part,
        end_at,
        lag(end_at) over (partition by account_profile, endpoint, partition order by start_at) as before_end_at,
        start_at
    from {{ source('meta', 'intervals') }}
),

proven as (
    select
        account_profile,
        endpoint,
        count(case when before_end_at < start_at then 1 end) as holes,
        {{ exact_sum('case when before_end_at < start_at then ' ~ seconds_between('before_end_at', 'start_at') ~ ' else 0 end') }} as holes_s,
        max(end_at) as proven_until
    from spaced
    group by account_profile, endpoint
),

-- A device that left the service is not read any more, so it does not hold the result back.
listed as (
    select cast(router_id as {{ dbt.type_string() }}) as part from {{ ref('stg_routers') }}
    union
    select cast(net_device_id as {{ dbt.type_string() }}) as part from {{ ref('stg_net_devices') }}
),

reached as (
    select
        account_profile,
        endpoint,
        part,
        max(end_at) as read_until
    from spaced
    group by account_profile, endpoint, part
),

slowest as (
    select
        r.account_profile,
        r.endpoint,
        min(r.read_until) as all_proven_until
    from reached as r
    left join listed as i on r.part = i.part
    where r.part = '' or i.part is not null
    group by r.account_profile, r.endpoint
),

forgotten as (
    select
        account_profile,
        endpoint,
        count(*) as gaps,
        count(case when acknowledged_at is null then 1 end) as open_gaps
    from {{ source('meta', 'gaps') }}
    group by account_profile, endpoint
)

select
    l.account_profile,
    l.endpoint,

    l.loads,
    l.rows_added,
    l.quarantined,
    coalesce(p.holes, 0) as holes,
    coalesce(p.holes_s, 0) as holes_s,
    coalesce(f.gaps, 0) as gaps,
    coalesce(f.open_gaps, 0) as open_gaps,

    w.watermark_at as newest_event_at,
    p.proven_until,
    s.all_proven_until,
    l.last_loaded_at

from loads as l
left join proven as p on l.account_profile = p.account_profile and l.endpoint = p.endpoint
left join slowest as s on l.account_profile = s.account_profile and l.endpoint = s.endpoint
left join forgotten as f on l.account_profile = f.account_profile and l.endpoint = f.endpoint
left join {{ source('meta', 'watermarks') }} as w
    on l.account_profile = w.account_profile and l.endpoint = w.endpoint
