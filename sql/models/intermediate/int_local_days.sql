-- Grain: one row per time zone, local day and UTC day that it overlaps.
-- Kind: table.

{{ config(materialized='table') }}

with zones as (
    select time_zone from {{ ref('int_router_zones') }}
    union
    select 'UTC' as time_zone
),

-- A day's time zones are at most a day apart.
days as (
    select
        z.time_zone,
        {{ explode_days('cast(a.known_from as date) - 2', 'cast(a.known_until as date) + 2') }} as local_date
    from zones as z
    cross join {{ ref('int_as_of') }} as a
    where a.known_from is not null and a.known_until is not null
),

spans as (
    select
        time_zone,
        local_date,
        {{ local_day_start('local_date', 'time_zone') }} as from_at,
        {{ local_day_start('local_date + 1', 'time_zone') }} as until_at
    from days
)

{{ by_day('spans', ['time_zone', 'local_date'], 'from_at', 'until_at') }}
