-- Grain: one row per router, UTC day, grid cell and carrier with a fix that measured the signal.
-- Kind: incremental. A unit is a router and UTC day.

{{ config(
    materialized='incremental', incremental_strategy='append',
    meta={'unit': ['router_id', 'fix_date']},
    pre_hook="{{ forget(touched_point_days()) }}",
    post_hook="{{ remember_built() }}"
) }}

with measured as (
    select
        router_id,
        fix_date,
        {{ cell_row('latitude_deg', var('cell_deg')) }} as cell_row,
        {{ cell_column('latitude_deg', 'longitude_deg', var('cell_deg')) }} as cell_column,
        carrier,
        rsrp_dbm,
        sinr_db,
        signal_pct,
        fixed_at
    from {{ ref('location_track_points') }}
    where quality = 'good' and coalesce(rsrp_dbm, sinr_db, signal_pct) is not null
        and {{ in_reach('router_id', 'fixed_at', touched_point_days(), days=0) }}
        and {{ in_touched(['router_id', 'fix_date'], touched_point_days()) }}
)

select
    router_id,
    fix_date,
    cell_row,
    cell_column,
    carrier,

    count(*) as fixes,
    {{ exact_count('case when rsrp_dbm < ' ~ var('weak_rsrp_dbm') ~ ' then rsrp_dbm end') }} as weak_fixes,
    min(rsrp_dbm) as min_rsrp_dbm,
    max(rsrp_dbm) as max_rsrp_dbm,
    {% for column in ['rsrp_dbm', 'sinr_db', 'signal_pct'] %}
    {{ exact_count(column) }} as {{ column }}_count,
    {{ exact_total(column) }} as {{ column }}_sum,
    {% endfor %}

    max(fixed_at) as last_fixed_at,
    {{ built_at() }} as built_at

from measured
group by router_id, fix_date, cell_row, cell_column, carrier
