-- Grain: one row per grid cell and carrier with a fix that measured the signal.
-- Kind: table.

select
    {{ cell_id('cell_row', 'cell_column', var('cell_deg')) }} as cell_id,
    coalesce(carrier, 'unknown') as carrier,

    round((cell_row + 0.5e0) * {{ var('cell_deg') }}, 6) as cell_latitude_deg,
    round((cell_column + 0.5e0) * {{ var('cell_deg') }}, 6) as cell_longitude_deg,
    {{ whole_sum('fixes') }} as fixes,
    {{ whole_sum('rsrp_dbm_count') }} as rsrp_fixes,
    {{ whole_sum('sinr_db_count') }} as sinr_fixes,
    {{ whole_sum('signal_pct_count') }} as signal_pct_fixes,
    {{ whole_sum('weak_fixes') }} as weak_fixes,
    count(distinct router_id) as routers,
    {{ mean_of('sum(rsrp_dbm_sum)', 'sum(rsrp_dbm_count)', 1) }} as mean_rsrp_dbm,
    min(min_rsrp_dbm) as min_rsrp_dbm,
    max(max_rsrp_dbm) as max_rsrp_dbm,
    {{ mean_of('sum(sinr_db_sum)', 'sum(sinr_db_count)', 1) }} as mean_sinr_db,
    {{ mean_of('sum(signal_pct_sum)', 'sum(signal_pct_count)', 1) }} as mean_signal_pct,
    round(1e2 * sum(weak_fixes) / nullif(sum(rsrp_dbm_count), 0), 1) as weak_pct,

    max(last_fixed_at) as last_fixed_at

from {{ ref('int_coverage_days') }}
group by cell_row, cell_column, carrier
