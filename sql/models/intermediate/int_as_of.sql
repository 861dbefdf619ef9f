-- Grain: one row, with the span of time that the lake has data for.
-- Kind: table.

-- The current time is that of the newest event, not the clock, so that the same rows always give
-- the same marts. Records stamped ahead of the service's clock at the last read are ignored; a push
-- is a read, too.
{{ config(materialized='table') }}

with events as (
    select min(created_at) as first_at, max(created_at) as last_at from {{ ref('stg_alerts') }}
    union all
    select min(started_at), max(updated_at) from {{ ref('stg_failovers') }}
    union all
    select min(first_sampled_at), max(last_sampled_at) from {{ ref('data_usage_daily') }}
    union all
    select min(first_fixed_at), max(last_fixed_at) from {{ ref('int_fix_days') }}
    union all
    select min(reported_at), max(reported_at) from {{ ref('battery_readings') }}
    union all
    select null, max(updated_at) from {{ ref('stg_locations') }}
),

last_read as (
    select max(read_until) + interval {{ var('clock_ahead_s') }} second as latest
    from (
        select read_until from {{ source('meta', 'reads') }}
        union all
        select received_at from {{ ref('stg_pushed_alerts') }}
    ) as every_read
)

select
    min(e.first_at) as known_from,
    case when max(e.last_at) > max(r.latest) then max(r.latest) else max(e.last_at) end as known_until
from events as e
cross join last_read as r
