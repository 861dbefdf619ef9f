-- Grain: one row per router that stands in a named place.
-- Kind: view.

-- A router whose fixes lie around different places from day to day moves, and has no place of its own.
with moving as (
    select router_id
    from {{ ref('int_fix_days') }}
    group by router_id
    having {{ extent_m('mean_latitude_deg', 'mean_longitude_deg', 'mean_latitude_deg', 'mean_longitude_deg') }} > {{ var('near_m') }}
),

standing as (
    select
        router_id,
        {{ last_by('latitude_deg', ['updated_at', 'location_id']) }} as latitude_deg,
        {{ last_by('longitude_deg', ['updated_at', 'location_id']) }} as longitude_deg
    from {{ ref('stg_locations') }}
    where router_id is not null and router_id not in (select router_id from moving where router_id is not null)
        and abs(latitude_deg) <= 90 and abs(longitude_deg) <= 180
    group by router_id
),

found as (
    {{ in_places('standing', ['router_id'], 'latitude_deg', 'longitude_deg') }}
)

select
    router_id,
    working_days,
    working_from_hour,
    working_until_hour
from found
where narrowness = 1
