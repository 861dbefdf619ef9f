-- Grain: one row, with the span of time that the lake has data for.
-- Kind: table.

-- The current time is that of the newest event, not the clock, so that the same rows always give
-- the same marts. Records stamped ahead of the service's clock at the last read are ignored; a push
-- is a read, too. Records stamped more than a year before all others are ignored as well: their
-- device had no clock.
{{ config(materialized='table') }}

with events as (
    {{ evidence(ref('stg_alerts'), 'created_at', 'created_at') }}
    union all
    {{ evidence(ref('stg_failovers'), 'started_at', 'updated_at') }}
    union all
    {{ evidence(ref('data_usage_daily'), 'first_sampled_at', 'last_sampled_at') }}
    union all
    {{ evidence(ref('int_fix_days'), 'first_fixed_at', 'last_fixed_at') }}
    union all
    {{ evidence(ref('battery_readings'), 'reported_at', 'reported_at') }}
    union all
    select null, null, null, max(updated_at) from {{ ref('stg_locations') }}
),

last_read as (
    select max(read_until) + interval {{ var('clock_ahead_s') }} second as latest
    from (
        select read_until from {{ source('meta', 'reads') }}
        union all
        select received_at from {{ ref('stg_pushed_alerts') }}
    ) as every_read
),

newest as (
    select case when max(e.last_at) > max(r.latest) then max(r.latest) else max(e.last_at) end as known_until
    from events as e
    cross join last_read as r
),

months as (
    select
        e.month_number,
        min(e.first_at) as first_at,
        {{ seconds_between('lag(max(e.latest_first_at)) over (order by e.month_number)', 'min(e.first_at)') }} as gap_s
    from events as e
    cross join newest as n
    where e.first_at <= n.known_until
    group by e.month_number
),

followed as (
    select
        first_at,
        month_number,
        max(case when gap_s > 86400 * {{ var('evidence_gap_days') }} then month_number end) over () as after_gap
    from months
)

select
    min(case when f.month_number >= coalesce(f.after_gap, f.month_number) then f.first_at end) as known_from,
    max(n.known_until) as known_until
from newest as n
left join followed as f on true
