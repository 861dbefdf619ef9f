-- Which routers failed over?
select router_name, from_interface as lost, to_interface as moved_to,
    to_carrier as carrier, strftime(started_at, '%Y-%m-%d %H:%M:%S') as started_at,
    if(is_open, 'still open', round(duration_s / 60, 1) || ' min') as lasted
from marts.failover_episodes
order by started_at desc limit 3

-- Which batteries are dying?
select router_name, serial_number as battery, health_pct, charge_pct, temperature_c,
    charge_status, strftime(reported_at, '%Y-%m-%d %H:%M') as reported_at
from marts.battery_health
order by health_pct limit 3

-- Where have my vehicles been?
select router_id, strftime(fixed_at, '%Y-%m-%d %H:%M:%S') as fixed_at, latitude_deg,
    longitude_deg, round(speed_kmh, 1) as speed_kmh, carrier
from marts.location_track_points where speed_kmh > 0
order by fixed_at desc limit 3
