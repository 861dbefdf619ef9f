-- Grain: one row per router and fix.
-- Kind: incremental. A unit is a fix. Spark, where every build is a full one, knows no such strategy.

{% set unit = ['fix_date', 'router_id', 'fix_id'] %}
{{ config(
    materialized='incremental', unique_key=unit,
    incremental_strategy='append' if target.type == 'spark' else 'delete+insert',
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

followed as (
    select
        router_id,
        fix_id,
        latitude_deg,
        longitude_deg,
        lag(latitude_deg) over track as before_lat,
        lag(longitude_deg) over track as before_lon,
        lead(latitude_deg) over track as after_lat,
        lead(longitude_deg) over track as after_lon,
        {{ seconds_between('lag(fixed_at) over track', 'fixed_at') }} as before_s,
        {{ seconds_between('fixed_at', 'lead(fixed_at) over track') }} as after_s,
        not is_new and (lag(is_new) over track or lead(is_new) over track) as is_beside_new
    from fixes
    where fault is null
    window track as (partition by router_id order by fixed_at, fix_id)
),

-- Reached and left too fast, while its neighbours agree: the fix is wrong. A device that is
-- only reached too fast was moved.
measured as (
    select
        router_id,
        fix_id,
        is_beside_new,
        case
            when before_s <= 86400 and after_s <= 86400
                and {{ too_far('before_lat', 'before_lon', 'latitude_deg', 'longitude_deg', 'before_s') }}
                then {{ too_far('latitude_deg', 'longitude_deg', 'after_lat', 'after_lon', 'after_s') }}
                and not {{ too_far('before_lat', 'before_lon', 'after_lat', 'after_lon', '(before_s + after_s)') }}
            else false
        end as is_jump
    from followed
),

-- Few fixes are out of the ordinary, and all others pass by without waiting in memory.
marked as (
    select * from measured
    where is_jump or is_beside_new
),

judged as (
    select
        f.*,
        case
            when f.fault is not null then f.fault
            when m.is_jump then 'jump'
            else 'good'
        end as quality
    from fixes as f
    left join marked as m on f.router_id = m.router_id and f.fix_id = m.fix_id
    where f.is_new or m.is_beside_new
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
{% if is_incremental() %}
-- A neighbour that is judged as before stays as it was.
where is_new or not exists (
    select 1 from {{ this }} as t
    where t.fix_date = judged.fix_date and t.router_id = judged.router_id
        and t.fix_id = judged.fix_id and t.quality = judged.quality
)
{% endif %}
