-- name: built
select count(distinct table_name) = 2 from duckdb_columns()
where database_name = 'lake' and schema_name = 'marts'
    and table_name in ('device_history', 'location_track_points')

-- name: devices_named
select router_id, max_by(router_name, valid_from) from marts.device_history
where router_id::varchar = $1 or lower(router_name) = lower($1)
group by router_id order by router_id

-- name: names
select distinct router_name from marts.device_history where router_name is not null

-- name: fixes
select fixed_at, latitude_deg, longitude_deg, altitude_m, speed_kmh, rsrp_dbm, carrier
from marts.location_track_points
where router_id = ? and fix_date = ? and quality = 'good'
order by fixed_at, fix_id

-- name: nearest
select fix_date from marts.location_track_points
where router_id = $1 and quality = 'good'
order by abs(fix_date - $2::date), fix_date limit 1
