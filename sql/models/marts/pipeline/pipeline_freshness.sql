-- Grain: one row per account profile and endpoint that was ever loaded.
-- Kind: table.

with loads as (
    select
        account_profile,
        endpoint,
        count(*) as loads,
        sum(rows_added) as rows_added,
        sum(quarantined) as quarantined,
        max(committed_at) as last_loaded_at
    from {{ source('meta', 'loads') }}
    group by account_profile, endpoint
),

spaced as (
    select
        account_profile,
        endpoint,
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
    cast(l.rows_added as bigint) as rows_added,
    cast(l.quarantined as bigint) as quarantined,
    coalesce(p.holes, 0) as holes,
    coalesce(p.holes_s, 0) as holes_s,
    coalesce(f.gaps, 0) as gaps,
    coalesce(f.open_gaps, 0) as open_gaps,

    w.watermark_at as newest_event_at,
    p.proven_until,
    l.last_loaded_at

from loads as l
left join proven as p on l.account_profile = p.account_profile and l.endpoint = p.endpoint
left join forgotten as f on l.account_profile = f.account_profile and l.endpoint = f.endpoint
left join {{ source('meta', 'watermarks') }} as w
    on l.account_profile = w.account_profile and l.endpoint = w.endpoint
