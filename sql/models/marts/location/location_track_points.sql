-- Grain: one row per router and fix.
-- Kind: incremental. A unit is a fix.

{% set unit = ['fix_date', 'router_id', 'fix_id'] %}
{{ config(
    materialized='incremental', incremental_strategy='delete+insert', unique_key=unit,
    meta={'unit': unit}, post_hook="{{ remember_built() }}"
) }}

-- A fix is judged by its neighbours within a day, so a new one has those judged again: they lie
-- a day away, and their own neighbours another day.
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
    where {{ in_reach('router_id', 'fixed_at', touched_fixes(), days=2) }}
),

neighbours as (
    select
        router_id,
        fix_id,
        lag(is_new) over track or lead(is_new) over track as is_beside_new,
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
    where f.is_new or n.is_beside_new
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
),

told as (
    select
        *,
        case
            when fault is not null then fault
            when is_jump then 'jump'
            else 'good'
        end as quality
    from judged
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

from told
{% if is_incremental() %}
-- A neighbour that is judged as before stays as it was.
where is_new or not exists (
    select 1 from {{ this }} as t
    where t.fix_date = told.fix_date and t.router_id = told.router_id
        and t.fix_id = told.fix_id and t.quality = told.quality
)
{% endif %}
