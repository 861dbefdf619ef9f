-- A trip starts and ends at places between two fixes, so its line is these and the fixes between.
-- A crossing of the antimeridian adds a point on each side of it: the end of one part, the start of
-- the next.
create or replace temp table trip_lines as
with spots as (
    select router_id, trip_id, started_at as spot_at, 0 as step,
           start_latitude_deg as lat, start_longitude_deg as lon
    from marts.trips
    union all
    select t.router_id, t.trip_id, p.fixed_at, 1, p.latitude_deg, p.longitude_deg
    from marts.location_track_points as p asof join marts.trips as t
    on p.router_id = t.router_id and p.fixed_at >= t.started_at
    where p.fixed_at > t.started_at and p.fixed_at < t.ended_at and p.quality = 'good'
    union all
    select router_id, trip_id, ended_at, 2, end_latitude_deg, end_longitude_deg from marts.trips
),
moves as (
    select *, lag(lat) over track as before_lat, lag(lon) over track as before_lon,
           row_number() over track as place
    from spots where abs(lat) <= 90 and abs(lon) <= 180
    window track as (partition by router_id, trip_id order by spot_at, step)
),
sides as (
    select *, abs(lon - before_lon) > 180 as is_crossing,
           case when lon > before_lon then -180 else 180 end as edge,
           lon + case when lon > before_lon then -360 else 360 end as unwrapped
    from moves where before_lon is null or (lat, lon) <> (before_lat, before_lon)
),
parts as (
    select *, sum(is_crossing::int) over (
        partition by router_id, trip_id order by place rows unbounded preceding
    )::int as part,
    case when is_crossing then before_lat + (lat - before_lat)
        * coalesce((edge - before_lon) / nullif(unwrapped - before_lon, 0), 0)
    end as edge_lat
    from sides
),
drawn as (
    select router_id, trip_id, coalesce(part, 0) as part, place * 3 as place, lat, lon from parts
    union all
    select router_id, trip_id, part - 1, place * 3 - 2, edge_lat, edge from parts where is_crossing
    union all
    select router_id, trip_id, part, place * 3 - 1, edge_lat, -edge from parts where is_crossing
),
lines as (
    select router_id, trip_id, part, count(distinct (lat, lon)) as points,
           string_agg(round(lon, 7) || ' ' || round(lat, 7), ', ' order by place) as line
    from drawn group by all
)
select router_id as of_router_id, trip_id as of_trip_id,
       case when count(*) = 1 then 'LINESTRING (' || any_value(line) || ')'
           else 'MULTILINESTRING (' || string_agg('(' || line || ')', ', ' order by part) || ')'
       end as line
from lines where points > 1 group by all
