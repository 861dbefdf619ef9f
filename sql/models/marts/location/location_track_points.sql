-- Grain: one row per router and fix.
-- Kind: incremental. A unit is a fix.

{% set unit = ['fix_date', 'router_id', 'fix_id'] %}
{{ config(
    materialized='incremental', unique_key=unit,
    incremental_strategy='delete+insert',
    meta={'unit': unit},
    pre_hook="{{ recall_first_fix() }}",
    post_hook="{{ remember_built() }}"
) }}

{% set cannot_reach = too_far('b.last_lat', 'b.last_lon', 'w.first_lat', 'w.first_lon',
    seconds_between('b.last_at', 'w.first_at')) %}
{% set cannot_leave = too_far('w.last_lat', 'w.last_lon', 'a.first_lat', 'a.first_lon',
    seconds_between('w.last_at', 'a.first_at')) %}

-- The rating of a fix depends on the fixes within ten hours: the span between the confirmed fixes
-- before and after, such a span on either side, and how long the fixes there agree. A new fix
-- therefore changes the rating of its neighbours, which need their own neighbours.
with {% if is_incremental() -%}
touched as (
    {{ touched_fixes() }}
),

reach as (
    select
        router_id,
        min(fixed_at) - interval 10 hour as judged_from,
        min(fixed_at) - interval 20 hour as read_from
    from touched
    group by router_id
),

{% endif -%}
fixes as (
    select
        f.*,
        {{ utc_date('f.fixed_at') }} as fix_date,
        case
            when latitude_deg is null or longitude_deg is null then 'no place'
            when abs(latitude_deg) > 90 or abs(longitude_deg) > 180 then 'out of range'
            when abs(latitude_deg) < 0.001 and abs(longitude_deg) < 0.001 then 'null island'
        end as fault
    from {{ ref('stg_historical_locations') }} as f
    {% if is_incremental() %}
    inner join reach as r on f.router_id = r.router_id and f.fixed_at >= r.read_from
    where f.fixed_at >= {{ first_touched_at() }} - interval 20 hour
    {% endif %}
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
        f.fix_id,
        f.fixed_at
    from fixes as f
    inner join wrong_days as w on f.router_id = w.router_id and f.fix_date = w.fix_date
    where f.fault is null
        and (f.fixed_at > w.first_at or (f.fixed_at = w.first_at and f.fix_id >= w.first_id))
        and (f.fixed_at < w.last_at or (f.fixed_at = w.last_at and f.fix_id <= w.last_id))
),

{% if is_incremental() %}
-- New fixes, and the few that are jumps now and were none before, or the reverse. A neighbour with
-- the same rating as before is not rewritten.
written as (
    select router_id, fix_id, fixed_at from touched

    union

    select r.router_id, changed.fix_id, changed.fixed_at
    from (
        select
            coalesce(j.router_id, t.router_id) as router_id,
            coalesce(j.fix_id, t.fix_id) as fix_id,
            coalesce(j.fixed_at, t.fixed_at) as fixed_at
        from jumps as j
        full join (
            select router_id, fix_date, fix_id, fixed_at from {{ this }} where quality = 'jump'
        ) as t on j.router_id = t.router_id and j.fix_date = t.fix_date and j.fix_id = t.fix_id
        where j.fix_id is null or t.fix_id is null
    ) as changed
    inner join reach as r on changed.router_id = r.router_id and changed.fixed_at >= r.judged_from
),

-- The fixes to write are usually the newest ones read. Without `materialized`, DuckDB would join all
-- fixes of these days first and compare times last.
recent as {{ 'materialized ' if target.type == 'duckdb' }}(
    select * from fixes where fixed_at >= (select min(fixed_at) from written)
),

rated as (
    select *
    from recent
    where (router_id, fixed_at, fix_id) in (select router_id, fixed_at, fix_id from written)
),

{% endif %}
judged as (
    select
        f.*,
        case when {{ is_carrier_code('f.carrier_id') }} then f.carrier_id end as carrier_code,
        case
            when c.carrier is not null then c.carrier
            when {{ is_carrier_code('f.carrier_id') }} then concat('network ', f.carrier_id)
            else f.carrier_id
        end as carrier,
        case
            when f.fault is not null then f.fault
            when j.fix_id is not null then 'jump'
            else 'good'
        end as quality
    from {{ 'rated' if is_incremental() else 'fixes' }} as f
    left join jumps as j
        on f.router_id = j.router_id and f.fix_date = j.fix_date and f.fix_id = j.fix_id
    left join {{ ref('int_carriers') }} as c on f.carrier_id = c.carrier_code
)

select
    router_id,
    fix_id,

    net_device_name,
    carrier,
    carrier_code,
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
    rsrp_5g_dbm,
    sinr_5g_db,

    fix_date,
    fixed_at,
    {{ built_at() }} as built_at

from judged
