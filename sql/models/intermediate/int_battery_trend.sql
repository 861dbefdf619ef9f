-- Grain: one row per battery with readings on enough days.
-- Kind: view.

-- Least squares of health over time, one point a day, over the newest days with a reading only:
-- fade accelerates, so a line through the whole life promises years too many. The gauge first shows
-- 62 when the line passes 62.5, whichever way it rounds. There is no interval: how far the rate will
-- change depends on the shape of the fade, which the readings do not show in time.
with days as (
    select
        *,
        {{ is_replaced('reading_date') }} as is_replaced
    from {{ ref('battery_daily') }}
    where health_pct between 0 and 100
),

points as (
    select
        battery_id,
        health_pct,
        last_reported_at,
        max(last_reported_at) over (partition by battery_id) as newest_at,
        row_number() over track as newness,
        max(case when is_replaced then reading_date end) over (
            partition by battery_id order by reading_date desc rows between unbounded preceding and 1 preceding
        ) is null as is_present
    from days
    window track as (partition by battery_id order by reading_date desc)
),

recent as (
    select
        battery_id,
        health_pct,
        newest_at,
        {{ seconds_between('newest_at', 'last_reported_at') }} / 86400 as day_number
    from points
    where is_present and newness <= {{ var('battery_recent_days') }}
),

lines as (
    select
        battery_id,
        newest_at,
        cast(ceil(-min(day_number)) as bigint) as trend_days,
        regr_slope(health_pct, day_number) as slope,
        regr_intercept(health_pct, day_number) as newest_health
    from recent
    group by battery_id, newest_at
    having count(*) >= {{ var('battery_trend_days') }}
)

select
    battery_id,
    trend_days,
    newest_at,
    slope,
    case when slope < 0 then
        greatest(({{ var('battery_worn_pct') }} + 0.5e0 - newest_health) / slope, 0)
    end as days_ahead
from lines
