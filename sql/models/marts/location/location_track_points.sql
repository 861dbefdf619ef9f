-- Grain: one row per router and fix.
-- Kind: incremental. A unit is a fix. Spark has no such strategy; there, every build is a full one.

{% set unit = ['fix_date', 'router_id', 'fix_id'] %}
{{ config(
    materialized='incremental', unique_key=unit,
    incremental_strategy='append' if target.type == 'spark' else 'delete+insert',
    meta={'unit': unit}, post_hook="{{ remember_built() }}"
) }}

{% set cannot_reach = too_far('b.last_lat', 'b.last_lon', 'w.first_lat', 'w.first_lon',
    seconds_between('b.last_at', 'w.first_at')) %}
{% set cannot_leave = too_far('w.last_lat', 'w.last_lon', 'a.first_lat', 'a.first_lon',
    seconds_between('w.last_at', 'a.first_at')) %}

-- The rating of a fix depends on the fixes within 2.25 days: the span between the confirmed fixes
-- before and after, such a span on either side, and how long the fixes there agree. A new fix
-- therefore changes the rating of its neighbours, which need their own neighbours.
with fixes as (
    select
        *,
        cast(fixed_at as date) as fix_date,
        {{ in_touched(['cast(fixed_at as date)', 'router_id', 'fix_id'], touched_fixes()) }} as is_new,
        case
            when latitude_deg is null or longitude_deg is null then 'no place'
            when abs(latitude_deg) > 90 or abs(longitude_deg) > 180 then 'out of range'
            when abs(latitude_deg) < 0.001 and abs(longitude_deg) < 0.001 then 'null island'
        end as fault
    from {{ ref('stg_historical_locations') }}
    where {{ in_reach('router_id', 'fixed_at', touched_fixes(), days=5) }}
),

followed as (
    select
        router_id,
        fix_id,
        fixed_at,
        latitude_deg,
        longitude_deg,
        lag(fix_id) over track as before_id,
        lag(fixed_at) over track as before_at,
        lag(latitude_deg) over track as before_lat,
        lag(longitude_deg) over track as before_lon
    from fixes
    where fault is null
    window track as (partition by router_id order by fixed_at, fix_id)
),

-- Only the few suspicious fixes are kept in memory; all others are streamed.
cuts as (
    select *
    from followed
    where before_at is null
        or {{ seconds_between('before_at', 'fixed_at') }} > {{ var('sure_s') }}
        or {{ too_far('before_lat', 'before_lon', 'latitude_deg', 'longitude_deg',
            seconds_between('before_at', 'fixed_at')) }}
),

newest as (
    select router_id, max(fixed_at) as newest_at
    from fixes
    where fault is null
    group by router_id
),

-- A run is a sequence of fixes, each of which can be reached by driving from the one before.
runs as (
    select
        router_id,
        row_number() over track as run_number,
        fix_id as first_id,
        fixed_at as first_at,
        latitude_deg as first_lat,
        longitude_deg as first_lon,
        lead(before_id) over track as last_id,
        lead(before_at) over track as last_at,
        lead(before_lat) over track as last_lat,
        lead(before_lon) over track as last_lon
    from cuts
    window track as (partition by router_id order by fixed_at, fix_id)
),

lasting as (
    select
        r.*,
        {{ seconds_between('r.first_at', 'coalesce(r.last_at, n.newest_at)') }} as run_s,
        least({{ seconds_between('r.first_at', 'coalesce(r.last_at, n.newest_at)') }}, {{ var('sure_s') }}) as sure_s
    from runs as r
    inner join newest as n on r.router_id = n.router_id
),

-- A jump is a run that cannot be reached by driving from the run before nor left to the run after,
-- while these two agree. A run that only cannot be reached is a move. But if these two agree within
-- an hour, and both last longer than the run between them, one of the two impossible drives is
-- enough: the time without a fix that follows a jump may be long enough to drive back.
doubted as (
    select
        w.router_id,
        w.run_number,
        w.first_id,
        w.first_at,
        w.last_id,
        w.last_at,
        b.run_number as before_number,
        a.run_number as after_number,
        b.sure_s + a.sure_s as sure_s
    from lasting as w
    cross join ({{ numbers(8) }}) as back
    inner join lasting as b on w.router_id = b.router_id and b.run_number = w.run_number - back.n
    cross join ({{ numbers(8) }}) as ahead
    inner join lasting as a on w.router_id = a.router_id and a.run_number = w.run_number + ahead.n
    where {{ seconds_between('b.last_at', 'a.first_at') }} <= {{ var('jump_within_s') }}
        and w.run_s <= greatest({{ var('jump_s') }}, b.sure_s + a.sure_s)
        and not {{ too_far('b.last_lat', 'b.last_lon', 'a.first_lat', 'a.first_lon',
            seconds_between('b.last_at', 'a.first_at')) }}
        and (
            ({{ cannot_reach }} and {{ cannot_leave }})
            or (
                ({{ cannot_reach }} or {{ cannot_leave }})
                and {{ seconds_between('b.last_at', 'a.first_at') }} <= {{ var('jump_s') }}
                and w.run_s < least(b.sure_s, a.sure_s)
            )
        )
),

most_doubted as (
    select
        router_id,
        run_number,
        max(sure_s) as sure_s
    from doubted
    group by router_id, run_number
),

-- Two wrong runs at one place agree with each other too. Runs that agree are confirmed only if no
-- run with more confidence contradicts them.
wrong as (
    select
        d.router_id,
        d.first_id,
        d.first_at,
        d.last_id,
        d.last_at
    from doubted as d
    left join most_doubted as b on d.router_id = b.router_id and d.before_number = b.run_number
    left join most_doubted as a on d.router_id = a.router_id and d.after_number = a.run_number
    where d.sure_s >= coalesce(b.sure_s, 0) and d.sure_s >= coalesce(a.sure_s, 0)
),

wrong_days as (
    select *, cast(first_at as date) as fix_date from wrong
    union
    select *, cast(last_at as date) as fix_date from wrong
),

jumps as (
    select
        f.router_id,
        f.fix_date,
        f.fix_id
    from fixes as f
    inner join wrong_days as w on f.router_id = w.router_id and f.fix_date = w.fix_date
    where f.fault is null
        and (f.fixed_at > w.first_at or (f.fixed_at = w.first_at and f.fix_id >= w.first_id))
        and (f.fixed_at < w.last_at or (f.fixed_at = w.last_at and f.fix_id <= w.last_id))
),

judged as (
    select
        f.*,
        case
            when f.fault is not null then f.fault
            when j.fix_id is not null then 'jump'
            else 'good'
        end as quality
    from fixes as f
    left join jumps as j
        on f.router_id = j.router_id and f.fix_date = j.fix_date and f.fix_id = j.fix_id
    {% if is_incremental() %}
    left join (
        select router_id, min(fixed_at) - interval 54 hour as judged_from
        from fixes
        where is_new
        group by router_id
    ) as n on f.router_id = n.router_id
    left join (select router_id, fix_date, fix_id from {{ this }} where quality = 'jump') as t
        on f.router_id = t.router_id and f.fix_date = t.fix_date and f.fix_id = t.fix_id
    -- A neighbour with the same rating as before is not rewritten.
    where f.is_new or (
        f.fault is null and f.fixed_at >= n.judged_from and (j.fix_id is null) <> (t.fix_id is null)
    )
    {% endif %}
)

select
    router_id,
    fix_id,

    net_device_name,
    carrier,
    quality,

    latitude_deg,
    longitude_deg,
    accuracy_m,
    altitude_m,
    round(speed_kmh, 2) as speed_kmh,
    signal_pct,
    signal_dbm,
    rsrp_dbm,
    sinr_db,

    fix_date,
    fixed_at,
    {{ built_at() }} as built_at

from judged
