-- Grain: one row per router and UTC day with a good fix.
-- Kind: table.

{{ config(materialized='table') }}

select
    router_id,
    fix_date,
    count(*) as fixes,
    {{ exact_mean('latitude_deg', 6) }} as mean_latitude_deg,
    {{ exact_mean('longitude_deg', 6) }} as mean_longitude_deg,
    min(fixed_at) as first_fixed_at,
    max(fixed_at) as last_fixed_at
from {{ ref('location_track_points') }}
where quality = 'good'
group by router_id, fix_date
