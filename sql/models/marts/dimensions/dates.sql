-- Grain: one row per day of each year that the lake has data for, of the year before and the year after.
-- Kind: table.

with days as (
    select
        {{ explode_days(
            "cast(cast(date_trunc('year', known_from) as date) - interval 1 year as date)",
            "cast(cast(date_trunc('year', known_until) as date) + interval 2 year - interval 1 day as date)"
        ) }} as day_date
    from {{ ref('int_as_of') }}
    where known_from is not null
)

select
    day_date,
    cast(date_trunc('week', day_date) as date) as week_date,
    cast(date_trunc('month', day_date) as date) as month_date,
    cast(date_trunc('quarter', day_date) as date) as quarter_date,

    cast(extract(year from day_date) as bigint) as year_number,
    cast(extract(quarter from day_date) as bigint) as quarter_number,
    cast(extract(month from day_date) as bigint) as month_number,
    cast(extract(week from day_date) as bigint) as iso_week,
    cast({{ iso_weekday('day_date') }} as bigint) as iso_weekday,
    {{ iso_weekday('day_date') }} > 5 as is_weekend

from days
