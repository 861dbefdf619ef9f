-- Grain: one row per router and fix.
-- Kind: incremental. A unit is a router and UTC day.

{{ config(
    materialized='incremental', incremental_strategy='append',
    meta={'unit': ['router_id', 'fix_date']},
    pre_hook="{{ forget(['router_id', 'fix_date'], touched_fix_days()) }}",
    post_hook="{{ remember_built() }}"
) }}

-- The days touched, with a day of context on both sides: no judgement reaches further.
with fixes as (
    select
        *,
        cast(fixed_at as date) as fix_date,
        case
            when latitude_deg is null or longitude_deg is null then 'no place'
            when abs(latitude_deg) > 90 or abs(longitude_deg) > 180 then 'out of range'
            when abs(latitude_deg) < 0.001 and abs(longitude_deg) < 0.001 then 'null island'
        end as fault
    from {{ ref('stg_historical_locations') }}
    where {{ in_reach('router_id', 'fixed_at', touched_fix_days()) }}
),

neighbours as (
    select
        router_id,
        fix_id,
        lag(fixed_at) over track as before_at,
        lag(latitude_deg) over track as before_lat,
        lag(longitude_deg) over track as before_lon,
        lead(fixed_at) over track as after_at,
        lead(latitude_deg) over track as after_lat,
        lead(longitude_deg) over track as after_lon
    from fixes
    where fault is null
    window track as (partition by router_id order by fixed_at, fix_id)
),

legs as (
    select
        f.*,
        {{ seconds_between('n.before_at', 'f.fixed_at') }} as before_s,
        {{ seconds_between('f.fixed_at', 'n.after_at') }} as after_s,
        {{ distance_m('n.before_lat', 'n.before_lon', 'f.latitude_deg', 'f.longitude_deg') }} as before_m,
        {{ distance_m('f.latitude_deg', 'f.longitude_deg', 'n.after_lat', 'n.after_lon') }} as after_m,
        {{ distance_m('n.before_lat', 'n.before_lon', 'n.after_lat', 'n.after_lon') }} as past_m
    from fixes as f
    left join neighbours as n on f.router_id = n.router_id and f.fix_id = n.fix_id
    where {{ in_touched(['f.router_id', 'f.fix_date'], touched_fix_days()) }}
),

-- Reached and left too fast, while its neighbours agree: the fix is wrong. A device that is
-- only reached too fast was moved.
judged as (
    select
        *,
        coalesce(
            before_s <= 86400 and after_s <= 86400
            and before_m > {{ var('fastest_kmh') }} / 3.6 * before_s
            and after_m > {{ var('fastest_kmh') }} / 3.6 * after_s
            and past_m <= {{ var('fastest_kmh') }} / 3.6 * (before_s + after_s),
            false
        ) as is_jump
    from legs
)

select
    router_id,
    fix_id,

    net_device_name,
    carrier,
    case
        when fault is not null then fault
        when is_jump then 'jump'
        else 'good'
    end as quality,

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
