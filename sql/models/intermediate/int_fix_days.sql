-- Grain: one row per router and UTC day with a good fix.
-- Kind: incremental. A unit is a router and UTC day.

{{ config(
    materialized='incremental', incremental_strategy='append',
    meta={'unit': ['router_id', 'fix_date']},
    pre_hook="{{ forget(touched_point_days()) }}",
    post_hook="{{ remember_built() }}"
) }}

with fixes as (
    select
        *,
        {{ sphere_x('latitude_deg', 'longitude_deg') }} as x,
        {{ sphere_y('latitude_deg', 'longitude_deg') }} as y,
        {{ sphere_z('latitude_deg') }} as z,
        row_number() over (partition by router_id, fix_date order by fixed_at desc, fix_id desc) as newness
    from {{ ref('location_track_points') }}
    where quality = 'good'
        and {{ in_reach('router_id', 'fixed_at', touched_point_days(), days=0) }}
        and {{ in_touched(['router_id', 'fix_date'], touched_point_days()) }}
)

select
    router_id,
    fix_date,

    count(*) as fixes,
    {{ latitude_of(exact_sum('x', 12), exact_sum('y', 12), exact_sum('z', 12)) }} as mean_latitude_deg,
    {{ longitude_of(exact_sum('x', 12), exact_sum('y', 12)) }} as mean_longitude_deg,
    {% for column in ['latitude_deg', 'longitude_deg', 'accuracy_m', 'speed_kmh', 'carrier', 'rsrp_dbm'] %}
    max(case when newness = 1 then {{ column }} end) as last_{{ column }},
    max(case when newness = 2 then {{ column }} end) as before_{{ column }},
    {% endfor %}
    max(case when newness = 2 then fixed_at end) as before_fixed_at,

    min(fixed_at) as first_fixed_at,
    max(fixed_at) as last_fixed_at,
    {{ built_at() }} as built_at

from fixes
group by router_id, fix_date
