-- Grain: one row per grid cell and carrier with a fix that measured the signal.
-- Kind: table.

with measured as (
    select
        {{ cell_id('latitude_deg', 'longitude_deg', var('cell_deg')) }} as cell_id,
        (floor(latitude_deg / {{ var('cell_deg') }}) + 0.5) * {{ var('cell_deg') }} as cell_latitude_deg,
        (floor(longitude_deg / {{ var('cell_deg') }}) + 0.5) * {{ var('cell_deg') }} as cell_longitude_deg,
        coalesce(carrier, 'unknown') as carrier,
        router_id,
        rsrp_dbm,
        sinr_db,
        signal_pct,
        fixed_at
    from {{ ref('location_track_points') }}
    where quality = 'good' and coalesce(rsrp_dbm, sinr_db, signal_pct) is not null
)

select
    cell_id,
    carrier,

    round(max(cell_latitude_deg), 6) as cell_latitude_deg,
    round(max(cell_longitude_deg), 6) as cell_longitude_deg,
    count(*) as fixes,
    count(distinct router_id) as routers,
    {{ exact_mean('rsrp_dbm', 1) }} as mean_rsrp_dbm,
    min(rsrp_dbm) as min_rsrp_dbm,
    max(rsrp_dbm) as max_rsrp_dbm,
    {{ exact_mean('sinr_db', 1) }} as mean_sinr_db,
    {{ exact_mean('signal_pct', 1) }} as mean_signal_pct,
    round(100.0 * sum(case when rsrp_dbm < {{ var('weak_rsrp_dbm') }} then 1 else 0 end) / count(*), 1) as weak_pct,

    max(fixed_at) as last_fixed_at

from measured
group by cell_id, carrier
