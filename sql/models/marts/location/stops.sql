-- Grain: one row per router and stop: between two trips, before the first, after the last.
-- Kind: table.

with known as (
    select
        router_id,
        min(first_fixed_at) as first_fixed_at,
        max(last_fixed_at) as last_fixed_at,
        max_by(mean_latitude_deg, fix_date) as latitude_deg,
        max_by(mean_longitude_deg, fix_date) as longitude_deg
    from {{ ref('int_fix_days') }}
    group by router_id
),

-- Arrivals: the end of each trip, and where a device was first seen before its first trip. If the end
-- of a trip was not recorded, the device arrived by its next fix at the latest; if the start of the
-- next trip was not, it left after its last fix at the earliest. A trip under way has no arrival; it
-- has ended if its device has sent no fix for as long as a trip can last without one.
arrivals as (
    select
        router_id,
        trip_id as arrived_by_trip_id,
        lead(trip_id) over track as left_by_trip_id,
        coalesce(seen_after_latitude_deg, end_latitude_deg) as latitude_deg,
        coalesce(seen_after_longitude_deg, end_longitude_deg) as longitude_deg,
        coalesce(seen_after_at, ended_at) as arrived_at,
        lead(coalesce(seen_before_at, started_at)) over track as left_at,
        is_open and {{ seconds_between('ended_at', 'known_until') }} < {{ var('trip_gap_s') }} as is_under_way
    from {{ ref('trips') }}
    cross join {{ ref('int_as_of') }}
    window track as (partition by router_id order by started_at, trip_id)

    union all

    select
        k.router_id,
        null as arrived_by_trip_id,
        min_by(t.trip_id, t.started_at) as left_by_trip_id,
        coalesce(min_by(t.start_latitude_deg, t.started_at), max(k.latitude_deg)) as latitude_deg,
        coalesce(min_by(t.start_longitude_deg, t.started_at), max(k.longitude_deg)) as longitude_deg,
        k.first_fixed_at as arrived_at,
        min_by(coalesce(t.seen_before_at, t.started_at), t.started_at) as left_at,
        false as is_under_way
    from known as k
    left join {{ ref('trips') }} as t on k.router_id = t.router_id
    group by k.router_id, k.first_fixed_at
),

placed as (
    select
        a.*,
        greatest(k.last_fixed_at, a.arrived_at) as seen_until,
        {{ cell_id(
            cell_row('a.latitude_deg', var('place_deg')),
            cell_column('a.latitude_deg', 'a.longitude_deg', var('place_deg')),
            var('place_deg')
        ) }} as place_id
    from arrivals as a
    inner join known as k on a.router_id = k.router_id
    where (a.left_at > a.arrived_at or a.left_at is null) and not a.is_under_way
),

named as (
    {{ in_places('placed', ['router_id', 'arrived_at'], 'latitude_deg', 'longitude_deg') }}
)

select
    s.router_id,
    r.account_id,
    r.group_id,
    arrived_by_trip_id,
    left_by_trip_id,
    place_id,

    r.router_name,
    r.account_name,
    r.group_name,
    n.place_name,
    s.left_at is null as is_still_there,
    arrived_by_trip_id is null as is_first_seen,

    latitude_deg,
    longitude_deg,
    round({{ seconds_between('s.arrived_at', 'coalesce(s.left_at, seen_until)') }}, 0) as dwell_s,
    count(*) over (partition by s.router_id, place_id) as visits_to_place,

    s.arrived_at,
    s.left_at

from placed as s
left join {{ ref('int_routers') }} as r on s.router_id = r.router_id
left join named as n
    on s.router_id = n.router_id and s.arrived_at = n.arrived_at and n.narrowness = 1
