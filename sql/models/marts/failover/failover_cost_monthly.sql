-- Grain: one row per carrier of a backup and UTC month.
-- Kind: table.

select
    coalesce(to_carrier, 'unknown') as carrier,
    cast(date_trunc('month', started_at) as date) as month_date,

    count(*) as episodes,
    count(distinct router_id) as routers,
    {{ exact_sum('duration_s') }} as backup_s,
    cast(coalesce(sum(backup_bytes), 0) as bigint) as backup_bytes,
    coalesce({{ exact_sum('cost', 4) }}, 0) as cost

from {{ ref('failover_episodes') }}
group by coalesce(to_carrier, 'unknown'), cast(date_trunc('month', started_at) as date)
